//! Reads `--resources`: text, JSON, or a file with either (spec §1.8), and which names it spoke
//! of. Arithmetic and grammar are in `resources`; looking at disks is in `detect.rs`.

use std::collections::BTreeSet;

use resources::collection::Resources;
use resources::form::ResourceForm;
use resources::parse as grammar;
use resources::resource::{DiskSourceKind, Resource};
use resources::role::Role;

use crate::config::{ConfigError, read_file, wrong};

const FLAG: &str = "resources";
const FORM: &str = "'name:value;name(role):value', a JSON array of resources, or file:///path";

/// The resources of the flag and every name in it, also those with an amount of zero.
pub(crate) fn parse(
    text: &str,
    default_role: &Role,
) -> Result<(Resources, BTreeSet<String>), ConfigError> {
    let file = text.strip_prefix("file://").map(|path| read_file(FLAG, path)).transpose()?;
    let text = file.as_deref().unwrap_or(text).trim();
    if text.is_empty() {
        return Ok((Resources::new(), BTreeSet::new()));
    }
    let (resources, names) = match serde_json::from_str::<serde_json::Value>(text) {
        Ok(json) => from_json(json, default_role)?,
        Err(error) if text.starts_with('[') => return Err(wrong(FLAG, error, FORM)),
        Err(_) => {
            let resources = grammar::resources_text(text, default_role)
                .map_err(|error| wrong(FLAG, error, FORM))?;
            (resources, names_in_text(text))
        }
    };
    for resource in resources.iter() {
        check_disk(resource)?;
    }
    Ok((resources, names))
}

fn from_json(
    json: serde_json::Value,
    default_role: &Role,
) -> Result<(Resources, BTreeSet<String>), ConfigError> {
    let forms: Vec<ResourceForm> =
        serde_json::from_value(json).map_err(|error| wrong(FLAG, error, FORM))?;
    let names = forms.iter().filter_map(|form| form.name.clone()).collect();
    let resources =
        grammar::resources_forms(forms, default_role).map_err(|error| wrong(FLAG, error, FORM))?;
    Ok((resources, names))
}

/// The part of each item before its value and its role.
fn names_in_text(text: &str) -> BTreeSet<String> {
    let items = text.split(';').filter_map(|item| item.split(['(', ':']).next());
    items.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn check_disk(resource: &Resource) -> Result<(), ConfigError> {
    let Some(source) = resource.disk_source() else { return Ok(()) };
    let has_root = source.root.as_ref().is_some_and(|root| !root.is_empty());
    match source.kind {
        DiskSourceKind::Path | DiskSourceKind::Mount if has_root => Ok(()),
        DiskSourceKind::Path | DiskSourceKind::Mount => {
            Err(wrong(FLAG, resource, "a root for every PATH and MOUNT disk"))
        }
        DiskSourceKind::Block | DiskSourceKind::Raw => {
            Err(wrong(FLAG, resource, "PATH or MOUNT disks: others come from resource providers"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_items() {
        let names = names_in_text("cpus:0; mem(ads) : 64 ;ports:[1-2];");
        assert_eq!(names, BTreeSet::from(["cpus", "mem", "ports"].map(String::from)));
    }
}
