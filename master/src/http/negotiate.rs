//! Content types of `/api/v1`: which one a body has, which one the answer gets. Exact as in
//! Mesos: parameters such as `; charset` make another type. Pure. Next: `operator.rs`.

use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};

use super::error::Failure;

/// A representation of calls and responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    Protobuf,
}

impl Media {
    /// Its name, exactly as clients compare it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/x-protobuf",
        }
    }

    /// The `Content-Type` of an answer.
    pub(crate) const fn header(self) -> HeaderValue {
        HeaderValue::from_static(self.name())
    }
}

/// The type of a request body.
pub(crate) fn of_request(headers: &HeaderMap) -> Result<Media, Failure> {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return Err(Failure::bad_request("Expecting 'Content-Type' to be present"));
    };
    match value.as_bytes() {
        b"application/json" => Ok(Media::Json),
        b"application/x-protobuf" => Ok(Media::Protobuf),
        _ => Err(Failure::UnsupportedMediaType),
    }
}

/// The type of the answer: JSON where both are welcome, and without an `Accept`. The header may
/// stand there several times.
pub(crate) fn of_response(headers: &HeaderMap) -> Result<Media, Failure> {
    let ranges: Vec<(String, bool)> = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(range)
        .collect();
    if ranges.is_empty() {
        return Ok(Media::Json);
    }
    [Media::Json, Media::Protobuf]
        .into_iter()
        .find(|media| is_welcome(&ranges, media.name()))
        .ok_or(Failure::NotAcceptable)
}

/// A media range and whether its quality is above zero.
fn range(text: &str) -> Option<(String, bool)> {
    let mut parts = text.split(';').map(str::trim);
    let name = parts.next().filter(|name| !name.is_empty())?.to_ascii_lowercase();
    let quality = parts.find_map(|part| part.strip_prefix("q=")).map(str::parse::<f32>);
    let is_refused = matches!(quality, Some(Ok(quality)) if quality <= 0.0);
    Some((name, !is_refused))
}

/// The most specific range that matches decides.
fn is_welcome(ranges: &[(String, bool)], name: &str) -> bool {
    [name, "application/*", "*/*"]
        .into_iter()
        .find_map(|wanted| {
            let mut matching = ranges.iter().filter(|(range, _)| range == wanted).peekable();
            matching.peek().is_some().then(|| matching.any(|(_, welcome)| *welcome))
        })
        .unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepted(values: &[&str]) -> Option<Media> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(ACCEPT, value.parse().unwrap());
        }
        of_response(&headers).ok()
    }

    #[test]
    fn accept() {
        for (values, expected) in [
            (&[][..], Some(Media::Json)),
            (&["*/*"], Some(Media::Json)),
            (&["application/*"], Some(Media::Json)),
            (&["application/json"], Some(Media::Json)),
            (&["application/x-protobuf"], Some(Media::Protobuf)),
            (&["application/x-protobuf, application/json"], Some(Media::Json)),
            (&["application/x-protobuf", "application/x-protobuf"], Some(Media::Protobuf)),
            (&["application/json;q=0, */*"], Some(Media::Protobuf)),
            (&["text/html, application/json;q=0.5"], Some(Media::Json)),
            (&["image/png"], None),
            (&["application/json;q=0"], None),
            (&[""], Some(Media::Json)),
        ] {
            assert_eq!(accepted(values), expected, "{values:?}");
        }
    }

    #[test]
    fn content_types_are_exact() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, value.parse().unwrap());
            of_request(&headers).map_err(|failure| failure.status().as_u16())
        };
        assert_eq!(of("application/json"), Ok(Media::Json));
        assert_eq!(of("application/x-protobuf"), Ok(Media::Protobuf));
        for other in ["application/json; charset=utf-8", "text/plain", "application/recordio"] {
            assert_eq!(of(other), Err(415), "{other}");
        }
        let missing = of_request(&HeaderMap::new()).unwrap_err();
        assert_eq!(missing.status().as_u16(), 400);
    }
}
