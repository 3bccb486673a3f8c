//! Joins paths to a base URL that may have a query.

/// The URL of a path below a base URL. The query of the base, for example a vendor's `api-version`, follows that of the
/// path.
pub(super) fn join_url(base: &str, path: &str) -> String {
    let (base, query) = match base.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (base, None),
    };
    let mut url = format!("{}{path}", base.trim_end_matches('/'));
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        url.push(if path.contains('?') { '&' } else { '?' });
        url.push_str(query);
    }
    url
}

#[cfg(test)]
mod tests {
    use super::join_url;

    #[test]
    fn the_query_of_a_base_url_stays_at_its_end() {
        for (base, path, expected) in [
            ("http://h/v1", "/models", "http://h/v1/models"),
            ("http://h/v1/", "/models", "http://h/v1/models"),
            (
                "https://h/openai/deployments/d?api-version=2024-10-21",
                "/chat/completions",
                "https://h/openai/deployments/d/chat/completions?api-version=2024-10-21",
            ),
            ("http://h/?a=b", "/m?alt=sse", "http://h/m?alt=sse&a=b"),
            ("http://h?", "/m", "http://h/m"),
        ] {
            assert_eq!(join_url(base, path), expected);
        }
    }
}
