//! Edits the configuration file for `tool init`, and keeps everything else that the user wrote there.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, TableLike, value};

use super::mask::mask_url;
use super::{ANALYST_URL, Preset, ProviderApi, ProviderName, Secret};
use tool_core::api::{ErrorKind, Problem};

/// Server to enable. An absent value does not change the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderChoice {
    /// The provider to enable.
    pub provider: ProviderName,
    /// The vendor whose server it uses; absent if `[providers.NAME]` describes the server itself.
    pub vendor: Option<String>,
    /// Its wire, if it is not the default one.
    pub api: Option<ProviderApi>,
    /// Its base URL, if it is not the default one.
    pub url: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// Its key, if the file should hold it.
    pub api_key: Option<Secret>,
    /// True to keep the address in the file, also if the provider changes.
    pub keeps_url: bool,
    /// Parts of its URL by the name of their setting: `region`, `project`, `resource`.
    pub url_parts: BTreeMap<&'static str, String>,
}

impl ProviderChoice {
    /// A provider that describes its server itself.
    pub fn for_provider(provider: ProviderName) -> Self {
        Self {
            provider,
            vendor: None,
            api: None,
            url: None,
            model: None,
            api_key: None,
            keeps_url: false,
            url_parts: BTreeMap::new(),
        }
    }

    /// A vendor by name, used by its provider.
    pub fn of_vendor(provider: ProviderName, vendor: impl Into<String>) -> Self {
        Self {
            vendor: Some(vendor.into()),
            ..Self::for_provider(provider)
        }
    }

    /// The embedded analyst: no key, no network.
    pub fn offline() -> Self {
        Self {
            url: Some(ANALYST_URL.to_owned()),
            ..Self::for_provider(ProviderName::Local)
        }
    }
}

const HEADER: &str = "\
# Configuration of `tool`. Exactly one provider is enabled; environment variables win over this file.
# `tool models use NAME` switches, keeping keys and comments.

";

/// Writes the file below `home` (mode 0600, its folder 0700). In an existing file, changes only the given settings.
///
/// # Errors
///
/// If the file is not valid TOML, or cannot be read or written.
pub fn write_initial(home: &Path, init: &ProviderChoice) -> Result<WrittenConfig, Problem> {
    let mut dropped = None;
    let place = edit_file(home, |document| dropped = apply_init(document, init))?;
    Ok(WrittenConfig { place, dropped })
}

/// Sets only the port in the file below `home`. Returns the file's path.
///
/// # Errors
///
/// If the file is not valid TOML, or cannot be read or written.
pub fn write_port(home: &Path, port: u16) -> Result<PathBuf, Problem> {
    edit_file(home, |document| {
        let server = document.entry("server").or_insert_with(|| Item::Table(Table::new()));
        if let Some(server) = server.as_table_like_mut() {
            server.insert("port", value(i64::from(port)));
        }
    })
}

/// The new text of the file, without writing it.
pub(super) fn preview_file(text: &str, init: &ProviderChoice) -> Result<String, Problem> {
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Problem::new(ErrorKind::ConfigInvalid, "Failed to parse config: Invalid TOML syntax")
            .with_hint(format!("mend config.toml: {}", error.message()))
    })?;
    apply_init(&mut document, init);
    Ok(document.to_string())
}

fn edit_file(home: &Path, change: impl FnOnce(&mut DocumentMut)) -> Result<PathBuf, Problem> {
    let place = super::config_path(home);
    let problem = |what: &str, error: &io::Error| {
        let problem = Problem::new(
            ErrorKind::ConfigInvalid,
            format!("{what} `{}`: {error}", place.display()),
        );
        if super::is_unwritable(error) {
            problem.with_hint(super::SET_HOME)
        } else {
            problem
        }
    };
    let (header, text) = match fs::read_to_string(&place) {
        Ok(text) => ("", text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => (HEADER, String::new()),
        Err(error) => return Err(problem("Could not read", &error)),
    };
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Problem::new(ErrorKind::ConfigInvalid, "Failed to parse config: Invalid TOML syntax").with_hint(format!(
            "mend or remove {}: {}",
            place.display(),
            error.message()
        ))
    })?;
    change(&mut document);
    write_private(&place, format!("{header}{document}").as_bytes())
        .map_err(|error| problem("Could not write", &error))?;
    Ok(place)
}

/// Result of [`write_initial`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenConfig {
    /// The file.
    pub place: PathBuf,
    /// A URL that was removed because it belonged to another wire or another server; without secrets.
    pub dropped: Option<String>,
}

/// The `--url` that selects the provider's default URL.
pub const DEFAULT_URL: &str = "default";

/// Returns the removed URL.
pub(super) fn apply_init(document: &mut DocumentMut, init: &ProviderChoice) -> Option<String> {
    let providers = ensure_table(document, "providers")?;
    // If no provider was enabled, the settings in the file are meant for the new one.
    let is_switched =
        ProviderName::ALL.iter().any(|name| is_enabled(providers, *name)) && !is_enabled(providers, init.provider);
    for (_, provider) in providers.iter_mut() {
        if let Some(provider) = provider.as_table_like_mut() {
            provider.insert("enabled", value(false));
        }
    }
    let provider = providers
        .entry(init.provider.name())
        .or_insert_with(|| Item::Table(Table::new()));
    let provider = provider.as_table_like_mut()?;
    let Some(vendor) = &init.vendor else {
        provider.remove("vendor");
        let dropped = apply_to_server(provider, init, is_switched && !init.keeps_url);
        provider.insert("enabled", value(true));
        return dropped;
    };
    provider.insert("vendor", value(vendor));
    provider.insert("enabled", value(true));
    let vendors = ensure_table(document, "vendors")?;
    let server = vendors.entry(vendor).or_insert_with(|| Item::Table(Table::new()));
    apply_to_server(server.as_table_like_mut()?, init, false)
}

/// A table of tables, created if it is missing.
fn ensure_table<'d>(document: &'d mut DocumentMut, key: &str) -> Option<&'d mut dyn TableLike> {
    let item = document.entry(key).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_like_mut()
}

fn apply_to_server(server: &mut dyn TableLike, init: &ProviderChoice, is_switched: bool) -> Option<String> {
    let text = |key: &str| server.get(key).and_then(Item::as_str).map(str::to_owned);
    let (url, api) = (text("url"), text("api"));
    let is_analyst = url.as_deref() == Some(ANALYST_URL);
    let usual_api = init
        .vendor
        .as_deref()
        .and_then(Preset::find_by_name)
        .map_or(ProviderApi::Messages, |preset| preset.api);
    // An address belongs to one wire and one server. The analyst has no address.
    let other_wire = init
        .api
        .is_some_and(|wire| api.as_deref().unwrap_or(usual_api.name()) != wire.name());
    let is_stale = (is_analyst && !init.keeps_url) || other_wire || is_switched || init.url.is_some();
    if is_stale {
        server.remove("url");
    }
    let dropped = url.filter(|url| is_stale && !is_analyst && init.url.as_ref() != Some(url));
    let mut set = |key: &str, text: Option<&str>| {
        if let Some(text) = text {
            server.insert(key, value(text));
        }
    };
    set("api", init.api.map(ProviderApi::name));
    set("url", init.url.as_deref().filter(|url| *url != DEFAULT_URL));
    for (name, part) in &init.url_parts {
        set(name, Some(part));
    }
    set("model", init.model.as_deref());
    set("api_key", init.api_key.as_ref().map(Secret::expose));
    if init.api_key.is_some() {
        // A key and a command for it exclude each other.
        server.remove("api_key_command");
    }
    dropped.map(|url| mask_url(&url))
}

fn is_enabled(providers: &dyn TableLike, name: ProviderName) -> bool {
    let provider = providers.get(name.name()).and_then(Item::as_table_like);
    provider.and_then(|provider| provider.get("enabled")?.as_bool()) == Some(true)
}

/// Replaces a file of the user in one step: a reader sees the old or the new text, and no other user can read it.
pub(super) fn write_private(place: &Path, content: &[u8]) -> io::Result<()> {
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
    use crate::{Environment, load_settings};

    fn written(home: &Path, init: &ProviderChoice) -> String {
        let WrittenConfig { place, .. } = write_initial(home, init).expect("the folder is writable");
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
        insta::assert_snapshot!(written(&folder, &ProviderChoice::offline()), @r#"
        # Configuration of `tool`. Exactly one provider is enabled; environment variables win over this file.
        # `tool models use NAME` switches, keeping keys and comments.

        [providers.local]
        url = "builtin:analyst"
        enabled = true
        "#);
        let settings = load_settings(&folder, &Environment::default()).expect("the file is right");
        assert_eq!(settings.provider.url, ANALYST_URL);
    }

    #[test]
    fn a_second_init_keeps_keys_and_comments() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mine = "# mine\n[providers.router]\napi_key = \"k\"\nmodel = \"m\"\nenabled = true\n\n[logging]\nlevel = \"DEBUG\"\n";
        fs::write(home.path().join("config.toml"), mine).expect("the folder is writable");
        insta::assert_snapshot!(written(home.path(), &ProviderChoice::offline()), @r#"
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
        let local = |url: Option<&str>| ProviderChoice {
            url: url.map(str::to_owned),
            model: Some("m".to_owned()),
            ..ProviderChoice::for_provider(ProviderName::Local)
        };
        written(home.path(), &local(Some("http://10.0.0.5:9999/v1")));
        let again = written(home.path(), &local(None));
        assert!(again.contains("url = \"http://10.0.0.5:9999/v1\""), "{again}");
        written(home.path(), &ProviderChoice::offline());
        let back = written(home.path(), &local(None));
        assert!(!back.contains("url"), "the analyst's address is no server's: {back}");
    }

    #[test]
    fn the_address_of_another_wire_or_server_is_dropped_and_said() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let dropped = |provider, api, url: Option<&str>| {
            let init = ProviderChoice {
                api,
                url: url.map(str::to_owned),
                model: Some("m".to_owned()),
                ..ProviderChoice::for_provider(provider)
            };
            let written = write_initial(home.path(), &init).expect("the folder is writable");
            let text = fs::read_to_string(written.place).expect("it was written");
            let kept: Vec<String> = text
                .lines()
                .filter(|line| line.starts_with("url"))
                .map(str::to_owned)
                .collect();
            (written.dropped, kept.join(" "))
        };
        let none = || (None, String::new());
        use ProviderName::{Hosted, Router};
        let mine = "https://me:secret@proxy.example/v1";
        let kept = || (None, format!("url = \"{mine}\""));
        let by_hand = format!("[providers.hosted]\nurl = \"{mine}\"\n");
        fs::write(home.path().join("config.toml"), by_hand).expect("the folder is writable");
        assert_eq!(dropped(Hosted, None, None), kept(), "it was written for this");
        assert_eq!(
            dropped(Hosted, Some(ProviderApi::Messages), None),
            kept(),
            "the same wire"
        );
        let masked = || (Some("https://***@proxy.example/v1".to_owned()), String::new());
        assert_eq!(dropped(Hosted, Some(ProviderApi::Chat), None), masked(), "another wire");
        assert_eq!(dropped(Hosted, None, Some(mine)), kept());
        assert_eq!(
            dropped(Router, None, None),
            kept(),
            "that of another provider stays where it stands"
        );
        assert_eq!(
            dropped(Hosted, None, None),
            masked(),
            "and is not in force again without a word"
        );
        assert_eq!(dropped(Hosted, None, Some(mine)), kept());
        assert_eq!(dropped(Hosted, None, Some(DEFAULT_URL)), masked());
        assert_eq!(dropped(Hosted, None, None), none());
    }

    #[test]
    fn a_vendor_is_selected_by_name_and_keeps_its_own_settings() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let mine = "[providers.hosted]\napi_key = \"of-hosted\"\nmodel = \"m\"\nenabled = true\n\n[vendors.groq]\napi_key_command = [\"pass\"]\n";
        fs::write(home.path().join("config.toml"), mine).expect("the folder is writable");
        let groq = ProviderChoice {
            model: Some("fast".to_owned()),
            api_key: Some(Secret::new("of-groq")),
            ..ProviderChoice::of_vendor(ProviderName::Hosted, "groq")
        };
        insta::assert_snapshot!(written(home.path(), &groq), @r#"
        [providers.hosted]
        api_key = "of-hosted"
        model = "m"
        enabled = true
        vendor = "groq"

        [vendors.groq]
        model = "fast"
        api_key = "of-groq"
        "#);
        let settings = load_settings(home.path(), &Environment::default()).expect("the file is right");
        assert_eq!(settings.provider.api_key, Some(Secret::new("of-groq")));
        let vertex = ProviderChoice {
            url_parts: [("project", "shop".to_owned()), ("region", "global".to_owned())].into(),
            ..ProviderChoice::of_vendor(ProviderName::Hosted, "vertex")
        };
        insta::assert_snapshot!(written(home.path(), &vertex), @r#"
        [providers.hosted]
        api_key = "of-hosted"
        model = "m"
        enabled = true
        vendor = "vertex"

        [vendors.groq]
        model = "fast"
        api_key = "of-groq"

        [vendors.vertex]
        project = "shop"
        region = "global"
        "#);
        let back = written(home.path(), &ProviderChoice::for_provider(ProviderName::Hosted));
        assert!(!back.contains("vendor ="), "{back}");
        let settings = load_settings(home.path(), &Environment::default()).expect("the file is right");
        assert_eq!(settings.provider.api_key, Some(Secret::new("of-hosted")));
    }

    #[test]
    fn the_port_alone_is_written_and_nothing_else_changes() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let before = written(home.path(), &ProviderChoice::offline());
        let place = write_port(home.path(), 8123).expect("the folder is writable");
        let after = fs::read_to_string(place).expect("it was written");
        assert_eq!(after, format!("{before}\n[server]\nport = 8123\n"));
    }
}
