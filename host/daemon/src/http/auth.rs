//! The callers that are admitted: the owner, by token or over `backend.sock`, and on Linux and loopback a process of
//! the same user. Such a process may be confined and see no file of the user. It may only read, unless it proves that
//! it is not confined.

use axum::http::{HeaderMap, header};

use tool_session::is_same_secret;

/// Evidence for the origin of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// The request carried the token, or came over `backend.sock`, which only the owner can use.
    Token,
    /// The request came over TCP from processes of the same user, each in the daemon's namespaces.
    OwnNamespaces,
    /// The request came over TCP from a process of the same user, which may be confined.
    SameUser,
}

/// The uid that stands for every user that our user namespace does not map.
const OVERFLOW_UID: u32 = 65_534;

/// True for the user of this process.
pub(crate) fn is_own_user(uid: u32) -> bool {
    uid == rustix::process::geteuid().as_raw() && (uid != OVERFLOW_UID || maps_all_users())
}

/// True outside of user namespaces, where the overflow uid belongs to one user.
fn maps_all_users() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

/// True if the request carries the token.
pub(super) fn has_token(headers: &HeaderMap, token: &str) -> bool {
    let value = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let Some((scheme, given)) = value.and_then(|value| value.split_once(' ')) else {
        return false;
    };
    // An empty token would admit every client.
    scheme.eq_ignore_ascii_case("bearer") && !token.is_empty() && is_same_secret(token, given.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_counts() {
        let carries = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().expect("a header"));
            has_token(&headers, "abc")
        };
        assert!(carries("Bearer abc") && carries("bearer abc"));
        assert!(!carries("Bearer ab") && !carries("Bearer abcd") && !carries("Basic abc") && !carries("abc"));
        let mut headers = HeaderMap::new();
        assert!(!has_token(&headers, "abc"));
        headers.insert(header::AUTHORIZATION, "Bearer ".parse().expect("a header"));
        assert!(!has_token(&headers, ""), "an empty token is nobody's");
    }

    #[test]
    fn a_foreign_uid_is_not_the_own_user() {
        let us = rustix::process::geteuid().as_raw();
        assert_eq!(is_own_user(us), us != OVERFLOW_UID || maps_all_users());
        assert!(!is_own_user(us + 1) && !is_own_user(us.wrapping_sub(1)));
    }
}
