//! `/frameworks` (spec §6.2): all frameworks, or the one with an id. Next: `tasks.rs`.

use axum::response::Response;
use serde::Serialize;

use super::json;
use crate::http::error::Failure;
use crate::http::incoming::Incoming;
use crate::http::picture::Picture;
use crate::http::shapes::framework::{FrameworkShape, Standing};
use crate::http::shapes::lazily;
use crate::http::usage::Usage;

/// The body.
#[derive(Serialize)]
struct Frameworks<L: Serialize, C: Serialize> {
    frameworks: L,
    completed_frameworks: C,
    unregistered_frameworks: [(); 0],
}

pub(in crate::http) fn frameworks(
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let query = incoming.query()?;
    let usage = Usage::of(&picture.view.state);
    let wanted = query.get("framework_id").map(String::as_str);
    let body = Frameworks {
        frameworks: live(picture, &usage, wanted),
        completed_frameworks: completed(picture, &usage, wanted),
        unregistered_frameworks: [],
    };
    json(incoming, &body)
}

/// Those on record, for whoever prints them.
pub(super) fn live<'a>(
    picture: &Picture<'a>,
    usage: &Usage<'a>,
    wanted: Option<&str>,
) -> impl Serialize {
    lazily(move || {
        picture
            .frameworks()
            .filter(move |framework| wanted.is_none_or(|id| framework.id.as_str() == id))
            .map(move |framework| FrameworkShape {
                picture: *picture,
                usage,
                framework,
                standing: Standing::Live,
            })
    })
}

/// The last removed ones.
pub(super) fn completed<'a>(
    picture: &Picture<'a>,
    usage: &Usage<'a>,
    wanted: Option<&str>,
) -> impl Serialize {
    lazily(move || {
        let standing = Standing::Completed;
        picture
            .completed_frameworks()
            .filter(move |framework| wanted.is_none_or(|id| framework.id.as_str() == id))
            .map(move |framework| FrameworkShape { picture: *picture, usage, framework, standing })
    })
}
