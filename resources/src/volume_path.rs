//! Where the directory of a persistent volume is (spec §7.6). Pure text: nothing is looked at.

use crate::resource::{DiskSourceKind, Resource};

/// Path of the volume's directory; roots that are relative lie below `work_dir`. `None` for
/// what has no directory: no volume, no reservation, a BLOCK or RAW disk, a source without
/// a root.
#[must_use]
pub fn volume_path(work_dir: &str, volume: &Resource) -> Option<String> {
    let id = volume.volume_id()?;
    let role = volume.reservation_role()?.directory_name();
    let work_dir = work_dir.trim_end_matches('/');
    let root = match volume.disk_source() {
        None => work_dir.to_owned(),
        Some(source) => {
            let root = absolute(work_dir, source.root.as_deref()?);
            match source.kind {
                DiskSourceKind::Path => root,
                DiskSourceKind::Mount if root.is_empty() => return Some("/".to_owned()),
                DiskSourceKind::Mount => return Some(root),
                DiskSourceKind::Block | DiskSourceKind::Raw => return None,
            }
        }
    };
    Some(format!("{root}/volumes/roles/{role}/{id}"))
}

/// The root without a slash at its end: the empty text stands for `/`.
fn absolute(work_dir: &str, root: &str) -> String {
    let root = root.trim_end_matches('/');
    if root.is_empty() || root.starts_with('/') {
        return root.to_owned();
    }
    format!("{work_dir}/{root}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::form::ResourceForm;

    #[test]
    fn directories() {
        #[track_caller]
        fn check(source: &str, expected: Option<&str>) {
            let text = format!(
                r#"{{"name": "disk", "type": "SCALAR", "scalar": {{"value": 1}},
                "reservations": [{{"type": "DYNAMIC", "role": "a/b"}}],
                "disk": {{"persistence": {{"id": "v"}} {source}}}}}"#
            );
            let form: ResourceForm = serde_json::from_str(&text).unwrap();
            let volume = Resource::try_from(form).unwrap();
            assert_eq!(volume_path("/w/", &volume).as_deref(), expected);
        }
        let path =
            |root| format!(r#", "source": {{"type": "PATH", "path": {{"root": "{root}"}}}}"#);
        check("", Some("/w/volumes/roles/a b/v"));
        check(&path("/p/"), Some("/p/volumes/roles/a b/v"));
        check(&path("p"), Some("/w/p/volumes/roles/a b/v"));
        check(&path("/"), Some("/volumes/roles/a b/v"));
        check(r#", "source": {"type": "MOUNT", "mount": {"root": "m"}}"#, Some("/w/m"));
        check(r#", "source": {"type": "MOUNT"}"#, None);
        check(r#", "source": {"type": "BLOCK"}"#, None);
    }
}
