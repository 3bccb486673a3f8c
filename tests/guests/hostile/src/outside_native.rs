//! Natively there is no outside.

pub(crate) struct Message<'a> {
    pub(crate) method: &'a str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [String],
    pub(crate) body: &'a [u8],
}

fn unsupported<T>() -> Result<T, String> {
    Err("unsupported".to_owned())
}

pub(crate) fn request(message: &Message<'_>) -> Result<String, String> {
    let _ = (message.method, message.url, message.headers, message.body);
    unsupported()
}

pub(crate) fn setting(_: &str) -> Result<Option<String>, String> {
    unsupported()
}

pub(crate) fn settings() -> Result<Vec<String>, String> {
    unsupported()
}

pub(crate) fn kept(_: &str, _: &str) -> Result<Option<String>, String> {
    unsupported()
}

pub(crate) fn keep(_: &str, _: &str, _: &[u8]) -> Result<(), String> {
    unsupported()
}

pub(crate) fn kept_keys(_: &str) -> Result<Vec<String>, String> {
    unsupported()
}
