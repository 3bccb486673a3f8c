//! The user's secrets for requests of skills: a file that only the user can read, and variables that the user's
//! configuration names.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tool_boundary::BoundSecret;
use tool_boundary::secrets::{SECRET_BYTES_MAX, SECRET_BYTES_MIN};
use tool_config::{Environment, SecretSettings};
use tool_core::api::SecretName;

use crate::SkillHostError;

/// Limit for the file in bytes.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Secrets in the file, by name.
#[derive(Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredSecrets {
    secrets: BTreeMap<String, StoredSecret>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSecret {
    host: String,
    header: String,
    value: String,
}

/// Reason why a value cannot be a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// The value is too short or too long.
    #[error("a secret has from {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} bytes")]
    Length,
    /// The value has a line break or another character that a header cannot hold.
    #[error("a secret has printable ASCII characters only")]
    Character,
    /// The name of the header is not valid.
    #[error("the name of a header has letters, digits and `-`")]
    Header,
}

/// Removes the line break that a terminal or a file adds, and checks the value.
///
/// # Errors
///
/// The value cannot be a secret.
pub fn check_secret(value: &str) -> Result<&str, SecretError> {
    let value = value.trim_end_matches(['\r', '\n']);
    if !(SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&value.len()) {
        Err(SecretError::Length)
    } else if value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
        Ok(value)
    } else {
        Err(SecretError::Character)
    }
}

fn header_name(header: &str) -> Result<String, SecretError> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !header.is_empty() && header.bytes().all(is_name) {
        Ok(header.to_ascii_lowercase())
    } else {
        Err(SecretError::Header)
    }
}

fn secrets_path(home: &Path) -> PathBuf {
    home.join("secrets.json")
}

impl StoredSecrets {
    /// Reads the secrets in this home; empty if there is no file.
    ///
    /// # Errors
    ///
    /// The file cannot be read or parsed.
    pub fn read(home: &Path) -> Result<Self, SkillHostError> {
        let path = secrets_path(home);
        let mut text = Vec::new();
        let read = match File::open(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            file => file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text)),
        };
        read.map_err(|source| SkillHostError::Io {
            path: path.clone(),
            action: "read",
            source,
        })?;
        // The parser's message quotes the file, so it is not shown.
        serde_json::from_slice(&text).map_err(|_| SkillHostError::Refused {
            path,
            reason: "it is not what `tool skill secret set` writes".to_owned(),
        })
    }

    /// Name, host and header of each secret, without values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let entries = self.secrets.iter();
        entries.map(|(name, secret)| (name.as_str(), secret.host.as_str(), secret.header.as_str()))
    }

    /// Sets a secret, and replaces one of the same name.
    ///
    /// # Errors
    ///
    /// The value or the header is not valid.
    pub fn set(&mut self, name: SecretName, secret: BoundSecret) -> Result<(), SecretError> {
        let stored = StoredSecret {
            value: check_secret(&secret.value)?.to_owned(),
            header: header_name(&secret.header)?,
            host: secret.host.to_string(),
        };
        self.secrets.insert(name.to_string(), stored);
        Ok(())
    }

    /// Removes a secret. Returns false if there is none of that name.
    pub fn remove(&mut self, name: SecretName) -> bool {
        self.secrets.remove(name.as_str()).is_some()
    }

    /// Writes the file with mode 0600.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn write(&self, home: &Path) -> Result<(), SkillHostError> {
        let path = secrets_path(home);
        let attempt = || -> io::Result<()> {
            DirBuilder::new().recursive(true).mode(0o700).create(home)?;
            let text = serde_json::to_vec_pretty(self)?;
            // A temporary file has mode 0600 from the start.
            let mut file = tempfile::NamedTempFile::new_in(home)?;
            file.write_all(&text)?;
            file.as_file().sync_all()?;
            file.persist(&path)?;
            Ok(())
        };
        attempt().map_err(|source| SkillHostError::Io {
            path: path.clone(),
            action: "written",
            source,
        })
    }
}

/// Finds a secret in the environment, if the configuration names it, or else in the file. The error is for the guest.
pub(crate) fn find_secret(
    name: SecretName,
    configured: Option<&SecretSettings>,
    home: &Path,
    environment: &Environment,
) -> Result<BoundSecret, String> {
    if let Some(settings) = configured {
        let variable = &settings.variable;
        let value = environment
            .get(variable)
            .ok_or_else(|| format!("the secret `{name}` has no value: the variable `{variable}` is not set"))?;
        return Ok(BoundSecret {
            host: settings.host,
            header: header_name(&settings.header).map_err(|error| error.to_string())?,
            value: check_secret(value).map_err(|error| error.to_string())?.to_owned(),
        });
    }
    let stored = StoredSecrets::read(home).map_err(|_| format!("the secret `{name}` cannot be read"))?;
    let secret = stored
        .secrets
        .get(name.as_str())
        .ok_or_else(|| format!("the secret `{name}` is not set: `tool skill secret set {name} --host HOST` sets it"))?;
    Ok(BoundSecret {
        host: secret
            .host
            .parse()
            .map_err(|_| format!("the secret `{name}` names no host"))?,
        header: secret.header.clone(),
        value: secret.value.clone(),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn bound(value: &str) -> BoundSecret {
        BoundSecret {
            host: "a.org".parse().expect("it is a host"),
            header: "Authorization".to_owned(),
            value: value.to_owned(),
        }
    }

    #[test]
    fn a_secret_is_written_for_the_user_alone_and_found_again() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let name: SecretName = "token".parse().expect("it is a name");
        let mut stored = StoredSecrets::read(home.path()).expect("there is no file");
        stored.set(name, bound("0123456789\n")).expect("it is a secret");
        stored.write(home.path()).expect("the folder is writable");
        let mode = std::fs::metadata(secrets_path(home.path()))
            .expect("it is there")
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600);
        let find = |configured| find_secret(name, configured, home.path(), &Environment::default());
        let found = find(None).expect("it is set");
        assert_eq!(
            (found.header.as_str(), found.value.as_str()),
            ("authorization", "0123456789")
        );
        let mut stored = StoredSecrets::read(home.path()).expect("it is ours");
        assert!(stored.remove(name) && !stored.remove(name));
        stored.write(home.path()).expect("the folder is writable");
        assert!(
            find(None)
                .expect_err("it is gone")
                .starts_with("the secret `token` is not set")
        );
    }

    #[test]
    fn a_variable_that_the_configuration_names_goes_before_the_file() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let name: SecretName = "token".parse().expect("it is a name");
        let settings = SecretSettings {
            host: "b.org".parse().expect("it is a host"),
            header: "x-token".to_owned(),
            variable: "TOKEN".to_owned(),
        };
        let find = |variables: &[(&str, &str)]| {
            let variables = variables
                .iter()
                .map(|&(name, value)| (name.to_owned(), value.to_owned()));
            find_secret(
                name,
                Some(&settings),
                home.path(),
                &Environment::new(variables.collect()),
            )
        };
        assert_eq!(find(&[("TOKEN", "0123456789")]).expect("it is set").value, "0123456789");
        assert_eq!(
            find(&[]).expect_err("it is not set"),
            "the secret `token` has no value: the variable `TOKEN` is not set"
        );
    }

    #[test]
    fn what_cannot_be_masked_or_sent_is_no_secret() {
        assert_eq!(check_secret("short"), Err(SecretError::Length));
        assert_eq!(check_secret("two\nlines of it"), Err(SecretError::Character));
        assert_eq!(check_secret("0123456789\r\n"), Ok("0123456789"));
        let name: SecretName = "token".parse().expect("it is a name");
        let odd = BoundSecret {
            header: "a b".to_owned(),
            ..bound("0123456789")
        };
        assert_eq!(StoredSecrets::default().set(name, odd), Err(SecretError::Header));
    }
}
