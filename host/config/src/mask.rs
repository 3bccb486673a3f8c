//! URLs as they may be shown.

/// A URL without its possible secrets: user and password, and the query.
pub(super) fn mask_url(url: &str) -> String {
    let (rest, query) = match url.split_once('?') {
        Some((rest, _)) => (rest, "?***"),
        None => (url, ""),
    };
    let Some((scheme, rest)) = rest.split_once("://") else {
        return format!("{rest}{query}");
    };
    let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => format!("***@{host}"),
        None => authority.to_owned(),
    };
    format!("{scheme}://{host}{path}{query}")
}
