//! `/tasks` (spec §6.2): tasks of all frameworks, those that ended among them, page by page.
//! Next: `overview.rs`.

use std::collections::BTreeMap;

use axum::response::Response;
use resources::time::Timestamp;
use serde::Serialize;

use super::json;
use crate::http::error::Failure;
use crate::http::incoming::Incoming;
use crate::http::picture::Picture;
use crate::http::shapes::lazily;
use crate::http::shapes::task::TaskShape;
use crate::state::tasks::Task;

/// Tasks on a page where the client does not say.
const LIMIT_DEFAULT: usize = 100;

/// The body.
#[derive(Serialize)]
struct Tasks<T: Serialize> {
    tasks: T,
}

pub(in crate::http) fn tasks(
    picture: &Picture<'_>,
    incoming: &Incoming,
) -> Result<Response, Failure> {
    let page = Page::of(&incoming.query()?);
    let tasks = page.of_these(all(picture));
    json(incoming, &Tasks { tasks: lazily(|| tasks.iter().map(|task| TaskShape::of(task))) })
}

/// Every task on record.
fn all<'a>(picture: &Picture<'a>) -> impl Iterator<Item = &'a Task> {
    let frameworks = picture.frameworks().chain(picture.completed_frameworks());
    frameworks.flat_map(move |framework| {
        picture.known_tasks(framework).chain(picture.completed_tasks(framework))
    })
}

/// What a client asks for.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    framework_id: Option<String>,
    task_id: Option<String>,
    limit: usize,
    offset: usize,
    order: Order,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    OldestFirst,
    NewestFirst,
}

impl Page {
    /// A number that cannot be read counts as none, and a limit below zero is no limit, as in
    /// Mesos.
    fn of(query: &BTreeMap<String, String>) -> Self {
        let number = |key: &str| query.get(key).and_then(|text| text.parse::<i64>().ok());
        let limit = number("limit").map(|limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let offset = number("offset").map(|offset| usize::try_from(offset).unwrap_or(usize::MAX));
        Self {
            framework_id: query.get("framework_id").cloned(),
            task_id: query.get("task_id").cloned(),
            limit: limit.unwrap_or(LIMIT_DEFAULT),
            offset: offset.unwrap_or_default(),
            order: match query.get("order").map(String::as_str) {
                Some("asc") => Order::OldestFirst,
                _ => Order::NewestFirst,
            },
        }
    }

    fn of_these<'a>(&self, tasks: impl Iterator<Item = &'a Task>) -> Vec<&'a Task> {
        let is_wanted =
            |wanted: &Option<String>, id: &str| wanted.as_ref().is_none_or(|wanted| wanted == id);
        let mut tasks: Vec<&Task> = tasks
            .filter(|task| is_wanted(&self.framework_id, task.framework_id.as_str()))
            .filter(|task| is_wanted(&self.task_id, task.task_id.as_str()))
            .collect();
        tasks.sort_by(|left, right| age(left).cmp(&age(right)));
        if self.order == Order::NewestFirst {
            tasks.reverse();
        }
        tasks.into_iter().skip(self.offset).take(self.limit).collect()
    }
}

/// Mesos goes by the time of the first status, and takes tasks of which nothing was said for the
/// oldest. Only the last status is kept here; the launch is what the first one followed.
fn age(task: &Task) -> (bool, Timestamp, &str, &str) {
    let has_status = task.status.is_some();
    (has_status, task.launched_at, task.framework_id.as_str(), task.task_id.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(query: &[(&str, &str)]) -> Page {
        let pairs = query.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Page::of(&pairs.collect())
    }

    #[test]
    fn pages() {
        let page_of =
            |limit, offset, order| Page { framework_id: None, task_id: None, limit, offset, order };
        assert_eq!(page(&[]), page_of(100, 0, Order::NewestFirst));
        let all = page(&[("limit", "-1"), ("order", "asc")]);
        assert_eq!(all, page_of(usize::MAX, 0, Order::OldestFirst));
        let odd = page(&[("limit", "x"), ("offset", "3"), ("order", "up")]);
        assert_eq!(odd, page_of(100, 3, Order::NewestFirst));
        assert_eq!(page(&[("task_id", "t")]).task_id.as_deref(), Some("t"));
    }
}
