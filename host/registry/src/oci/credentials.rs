//! The user's registry logins, from the file that `docker login` writes. The file is only read, and no program that
//! it names is started.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;

use tool_config::{Environment, Secret};

/// Limit for the file of logins in bytes.
const LOGINS_BYTES_MAX: u64 = 1024 * 1024;

/// The file of logins cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the logins in `{}` cannot be used: {reason}", path.display())]
pub struct CredentialsError {
    path: PathBuf,
    reason: String,
}

/// User name and password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Credentials {
    pub(super) user: String,
    pub(super) password: Secret,
}

#[derive(Deserialize)]
struct DockerLogins {
    #[serde(default)]
    auths: BTreeMap<String, DockerLogin>,
}

#[derive(Deserialize)]
struct DockerLogin {
    #[serde(default)]
    auth: Option<String>,
}

/// Finds the user's credentials for a registry: a host, with a port if it has one.
pub(super) fn find_credentials(
    registry: &str,
    environment: &Environment,
) -> Result<Option<Credentials>, CredentialsError> {
    let Some(path) = config_path(environment) else {
        return Ok(None);
    };
    let wrong = |reason: String| CredentialsError {
        path: path.clone(),
        reason,
    };
    let file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(|error| wrong(error.to_string()))?,
    };
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(wrong("it is no file".to_owned()));
    }
    let mut text = Vec::new();
    let max = LOGINS_BYTES_MAX;
    file.take(max + 1)
        .read_to_end(&mut text)
        .map_err(|error| wrong(error.to_string()))?;
    if text.len() as u64 > max {
        return Err(wrong(format!("it has more than {max} bytes")));
    }
    // The parser's message may quote the file, so it is not shown.
    let logins: DockerLogins = serde_json::from_slice(&text)
        .map_err(|error| wrong(format!("it is not JSON as expected, line {}", error.line())))?;
    let Some(login) = find_login(&logins, registry) else {
        return Ok(None);
    };
    match parse(login) {
        Some(credentials) => Ok(Some(credentials)),
        None => Err(wrong(format!(
            "what it holds for `{registry}` is not a name and a password"
        ))),
    }
}

fn config_path(environment: &Environment) -> Option<PathBuf> {
    let folder = environment.get("DOCKER_CONFIG").map(PathBuf::from);
    let home = || Some(PathBuf::from(environment.get("HOME")?).join(".docker"));
    Some(folder.or_else(home)?.join("config.json"))
}

/// Keys are hosts; in older files they are URLs.
fn find_login<'a>(logins: &'a DockerLogins, registry: &str) -> Option<&'a str> {
    let host = |key: &str| {
        let key = key.split_once("://").map_or(key, |(_, rest)| rest);
        key.split('/').next().unwrap_or_default().to_owned()
    };
    let mut found = logins.auths.iter().filter(|(key, _)| host(key) == registry);
    found.find_map(|(_, login)| login.auth.as_deref().filter(|auth| !auth.is_empty()))
}

fn parse(auth: &str) -> Option<Credentials> {
    let pair = String::from_utf8(BASE64.decode(auth.trim()).ok()?).ok()?;
    let (user, password) = pair.split_once(':')?;
    Some(Credentials {
        user: user.to_owned(),
        password: Secret::new(password.trim_end_matches('\0')),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looked(content: &str, registry: &str) -> Result<Option<(String, String)>, String> {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join("config.json"), content).expect("the folder is writable");
        let variable = ("DOCKER_CONFIG".to_owned(), folder.path().display().to_string());
        let environment = Environment::new([variable].into());
        find_credentials(registry, &environment)
            .map(|found| found.map(|found| (found.user, found.password.expose().to_owned())))
            .map_err(|error| error.reason)
    }

    #[test]
    fn a_login_is_found_by_its_host_alone() {
        let auth = BASE64.encode(b"ada:secret:with colon");
        let content = format!(
            r#"{{"auths": {{"one.example:5000": {{"auth": "{auth}"}},
            "https://two.example/v1/": {{"auth": "{auth}"}}, "three.example": {{}}}}, "credsStore": "sh"}}"#
        );
        let ada = Ok(Some(("ada".to_owned(), "secret:with colon".to_owned())));
        assert_eq!(looked(&content, "one.example:5000"), ada);
        assert_eq!(looked(&content, "two.example"), ada);
        for other in [
            "one.example",
            "one.example:5001",
            "three.example",
            "example",
            "sub.two.example",
        ] {
            assert_eq!(looked(&content, other), Ok(None), "{other}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_used_is_said_without_its_content() {
        let broken = looked(r#"{"auths": {"h.example": {"auth": "c2VjcmV0"}}}"#, "h.example");
        assert_eq!(
            broken,
            Err("what it holds for `h.example` is not a name and a password".to_owned())
        );
        let broken = looked("{\n\"auths\": \"hunter2\"}", "h.example");
        assert_eq!(broken, Err("it is not JSON as expected, line 2".to_owned()));
        let long = " ".repeat(usize::try_from(LOGINS_BYTES_MAX).expect("it is small") + 1);
        assert_eq!(
            looked(&long, "h.example"),
            Err(format!("it has more than {} bytes", LOGINS_BYTES_MAX))
        );
    }
}
