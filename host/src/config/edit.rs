//! Writing the configuration file: what `tool init` does, keeping whatever else the user wrote there.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};

use super::{ANALYST_URL, Api, ProviderName, Secret};
use crate::api::Problem;

/// What to enable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    /// The provider that becomes the enabled one.
    pub provider: ProviderName,
    /// Its wire, where it is not the default one.
    pub api: Option<Api>,
    /// Its base URL, where it is not the default one.
    pub url: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its key, where it is to be kept in the file.
    pub api_key: Option<Secret>,
}

impl Init {
    /// The embedded analyst: no key, no network.
    pub fn offline() -> Self {
        Self {
            provider: ProviderName::Local,
            api: None,
            url: Some(ANALYST_URL.to_owned()),
            model: None,
            api_key: None,
        }
    }
}

const HEADER: &str = "\
# Configuration of `tool`. Exactly one provider is enabled; environment variables win over this file.
# `tool init --provider NAME` switches, keeping keys and everything else that stands here.

";

/// Writes the file beneath `home` (mode 0600, its folder 0700), or changes just the named settings where it exists.
/// Returns its path.
pub fn write_initial(home: &Path, init: &Init) -> Result<PathBuf, Problem> {
    let place = super::path(home);
    let problem = |what: &str, error: &io::Error| {
        let problem = Problem::new("config-invalid", format!("{what} `{}`: {error}", place.display()));
        match super::is_unwritable(error) {
            true => problem.with_hint(super::SET_HOME),
            false => problem,
        }
    };
    let (header, text) = match fs::read_to_string(&place) {
        Ok(text) => ("", text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (HEADER, String::new()),
        Err(error) => return Err(problem("Could not read", &error)),
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Problem::new("config-invalid", "Failed to parse config: Invalid TOML syntax").with_hint(format!(
            "mend or remove {}: {}",
            place.display(),
            error.message()
        ))
    })?;
    apply(&mut document, init);
    write_private(&place, format!("{header}{document}").as_bytes())
        .map_err(|error| problem("Could not write", &error))?;
    Ok(place)
}

pub(super) fn apply(document: &mut DocumentMut, init: &Init) {
    let providers = document.entry("providers").or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    let Some(providers) = providers.as_table_like_mut() else {
        return;
    };
    for (_, provider) in providers.iter_mut() {
        if let Some(provider) = provider.as_table_like_mut() {
            provider.insert("enabled", value(false));
        }
    }
    let provider = providers
        .entry(init.provider.name())
        .or_insert_with(|| Item::Table(Table::new()));
    let Some(provider) = provider.as_table_like_mut() else {
        return;
    };
    // The analyst and a real server are both `local`: switching from one to the other must not leave half of it.
    if provider.get("url").and_then(Item::as_str) == Some(ANALYST_URL) {
        provider.remove("url");
    }
    let mut set = |key: &str, text: Option<&str>| {
        if let Some(text) = text {
            provider.insert(key, value(text));
        }
    };
    set("api", init.api.map(Api::name));
    set("url", init.url.as_deref());
    set("model", init.model.as_deref());
    set("api_key", init.api_key.as_ref().map(Secret::expose));
    provider.insert("enabled", value(true));
}

/// Replaces a file of the user's as a whole: whoever reads it sees the old or the new text, and nobody else sees it.
fn write_private(place: &Path, content: &[u8]) -> io::Result<()> {
    let folder = place.parent().expect("a configuration file lies in a folder");
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, load};

    fn written(home: &Path, init: &Init) -> String {
        let place = write_initial(home, init).expect("the folder is writable");
        assert_eq!(
            fs::metadata(&place).expect("it was written").permissions().mode() & 0o777,
            0o600
        );
        fs::read_to_string(place).expect("it was written")
    }

    #[test]
    fn a_new_file_works_at_once() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = home.path().join("new");
        insta::assert_snapshot!(written(&folder, &Init::offline()), @r#"
        # Configuration of `tool`. Exactly one provider is enabled; environment variables win over this file.
        # `tool init --provider NAME` switches, keeping keys and everything else that stands here.

        [providers.local]
        url = "builtin:analyst"
        enabled = true
        "#);
        let settings = load(&folder, &Environment::default()).expect("the file is right");
        assert_eq!(settings.provider.url, ANALYST_URL);
    }

    #[test]
    fn a_second_init_keeps_keys_and_comments() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mine = "# mine\n[providers.router]\napi_key = \"k\"\nmodel = \"m\"\nenabled = true\n\n[logging]\nlevel = \"DEBUG\"\n";
        fs::write(home.path().join("config.toml"), mine).expect("the folder is writable");
        insta::assert_snapshot!(written(home.path(), &Init::offline()), @r#"
        # mine
        [providers.router]
        api_key = "k"
        model = "m"
        enabled = false

        [providers.local]
        url = "builtin:analyst"
        enabled = true

        [logging]
        level = "DEBUG"
        "#);
    }

    #[test]
    fn another_model_keeps_the_address_of_the_server() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let local = |url: Option<&str>| Init {
            provider: ProviderName::Local,
            api: None,
            url: url.map(str::to_owned),
            model: Some("m".to_owned()),
            api_key: None,
        };
        written(home.path(), &local(Some("http://10.0.0.5:9999/v1")));
        let again = written(home.path(), &local(None));
        assert!(again.contains("url = \"http://10.0.0.5:9999/v1\""), "{again}");
        written(home.path(), &Init::offline());
        let back = written(home.path(), &local(None));
        assert!(!back.contains("url"), "the analyst's address is no server's: {back}");
    }
}
