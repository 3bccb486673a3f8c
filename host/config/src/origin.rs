//! Origin of each setting, from the same choice between layers that [`super::load_settings`] makes.
//!
//! [`inspect_config`] also lists the settings if the file is missing or wrong, so that `tool config` can explain them. An
//! optional key without a default is listed only if it is set. Of a secret, the list has only the length.

use std::fs;
use std::io;
use std::num::NonZeroU32;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::layer::{Sourced, ValueLayer};
use super::mask::mask_url;
use super::provider::{KeySource, SelectedServer};
use super::{
    AuthPolicy, ConfigFile, DEFAULT_PORT, Environment, FileContext, FileLogging, FileProvider, FileReports, HookRuns,
    PRESETS, PolicySettings, Preset, ProviderName, ServerSettings, SkillsSettings, TestsSettings, log_level, parse,
    resolve_settings,
};
use tool_core::api::{ErrorKind, Problem};
use tool_core::limits::{PROVIDER_FIRST_BYTE_SECONDS_MAX, PROVIDER_IDLE_SECONDS_MAX};

/// Layer that a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValueOrigin {
    /// No layer sets a value.
    Default,
    /// The configuration file.
    File(PathBuf),
    /// An environment variable, by name.
    Environment(&'static str),
    /// A flag of the command line, by name.
    Flag(&'static str),
}

impl std::fmt::Display for ValueOrigin {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Default => formatter.write_str("default"),
            Self::File(path) => write!(formatter, "from {}", path.display()),
            Self::Environment(name) | Self::Flag(name) => write!(formatter, "from {name}"),
        }
    }
}

impl Serialize for ValueOrigin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let origin = match self {
            Self::Default => json!({"layer": "default"}),
            Self::File(path) => json!({"layer": "file", "path": path.to_string_lossy()}),
            Self::Environment(name) => json!({"layer": "environment", "variable": name}),
            Self::Flag(name) => json!({"layer": "flag", "flag": name}),
        };
        origin.serialize(serializer)
    }
}

/// One setting.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    /// Its dotted key in the file; another name for a setting that is not in the file.
    pub key: String,
    /// The value; null if there is none. For a secret, only its length.
    pub value: Value,
    /// True if the value is that of a secret.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub secret: bool,
    /// Layer that it comes from.
    pub origin: ValueOrigin,
}

impl Setting {
    /// A setting that may be shown.
    pub fn new(key: impl Into<String>, value: impl Into<Value>, origin: ValueOrigin) -> Self {
        Self {
            key: key.into(),
            value: value.into(),
            secret: false,
            origin,
        }
    }
}

/// State of the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileState {
    /// The file does not exist.
    Missing,
    /// It was read and understood.
    Read,
    /// It could not be read or parsed.
    Broken,
}

/// The configuration, and its problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Inspection {
    /// The configuration file.
    pub file: PathBuf,
    /// State of the file.
    pub state: FileState,
    /// All settings; if the file is broken, only those from other layers.
    pub settings: Vec<Setting>,
    /// Names of variables that sessions get besides the settings, for example a proxy.
    pub forwarded: Vec<String>,
    /// Problems that should be fixed and stop nothing.
    pub warnings: Vec<Problem>,
    /// Problem that stops operations from starting.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// Inspects the configuration below `home` with this environment. Reads one file; changes and sends nothing.
pub fn inspect_config(home: &Path, environment: &Environment) -> Inspection {
    let place = super::config_path(home);
    let parsed = read_file(&place).and_then(|text| parse(&text));
    let (state, file, problem) = match parsed {
        Ok(file) => (FileState::Read, file, None),
        Err(problem) if problem.kind == ErrorKind::ConfigMissing => {
            (FileState::Missing, ConfigFile::default(), Some(problem))
        }
        Err(problem) => (FileState::Broken, ConfigFile::default(), Some(problem)),
    };
    let mut settings = list_settings(&file, &place, home, environment);
    if state == FileState::Broken {
        settings.retain(|setting| setting.origin != ValueOrigin::Default);
    }
    let wrong = || {
        let port = environment.port().err();
        let level = || super::values::check_log_level(&log_level(&file, environment), &super::config_text(home)).err();
        port.or_else(level)
            .or_else(|| resolve_settings(file, environment).err())
    };
    Inspection {
        warnings: check_exposure(home).into_iter().collect(),
        problem: problem.or_else(wrong),
        forwarded: also_forwarded(environment),
        file: place,
        state,
        settings,
    }
}

/// Returns the warning if others on this machine may read the configuration file.
pub fn check_exposure(home: &Path) -> Option<Problem> {
    let place = super::config_path(home);
    let mode = fs::metadata(&place).ok()?.permissions().mode() & 0o777;
    (mode & 0o077 != 0).then(|| {
        Problem::new(
            ErrorKind::ConfigExposed,
            format!("`{}` may be read by others (mode {mode:o})", place.display()),
        )
        .with_hint(format!("chmod 600 '{}'", place.display()))
    })
}

/// Returns the warning of [`check_exposure`] if the file contains a key. Shown before every operation.
pub fn exposed_key(home: &Path) -> Option<Problem> {
    let problem = check_exposure(home)?;
    let file = read_file(&super::config_path(home))
        .and_then(|text| parse(&text))
        .ok()?;
    let mut tables = file.providers.values().chain(file.vendors.values());
    let holds_key = tables.any(|table| table.api_key.is_some() || !table.headers.is_empty());
    holds_key.then_some(problem)
}

pub(super) fn read_file(place: &Path) -> Result<String, Problem> {
    fs::read_to_string(place).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Problem::new(
            ErrorKind::ConfigMissing,
            "Configuration file not found: ~/.tool/config.toml",
        )
        .with_hint(format!(
            "run `tool init`, which writes {}; `tool init --offline` needs no model",
            place.display()
        )),
        _ => Problem::new(
            ErrorKind::ConfigInvalid,
            format!("Configuration file `{}` could not be read: {error}", place.display()),
        )
        .with_hint("it must be a file of yours, in UTF-8"),
    })
}

/// All settings. The patterns name every field, so that a new key of the file cannot be forgotten.
pub(super) fn list_settings(file: &ConfigFile, place: &Path, home: &Path, environment: &Environment) -> Vec<Setting> {
    let ConfigFile {
        providers: _,
        vendors,
        prices,
        logging,
        context,
        reports,
        server,
        policy,
        skills,
        tests,
    } = file;
    let FileLogging { level: _ } = logging;
    let FileContext { vault } = context;
    let FileReports { directory } = reports;
    let ServerSettings {
        address,
        hosts,
        cors_origins,
        auth,
        idle_minutes,
        port,
    } = server;
    let loopback = ServerSettings::default().address;
    let PolicySettings {
        hide,
        reveal,
        protect,
        unredacted,
        team,
        allow,
        deny,
        require_sandbox,
        untrusted,
        home: home_is_repository,
        mcp,
        hooks,
    } = policy;
    let operations: Vec<String> = mcp.iter().map(|operation| operation.name().to_owned()).collect();
    let SkillsSettings {
        require_signature,
        identities,
        config,
        secrets,
        hosts: reached,
    } = skills;
    let TestsSettings {
        command,
        results,
        build,
        lint,
        format,
        types,
    } = tests;
    let names: Vec<String> = identities.keys().cloned().collect();
    let configured: Vec<String> = config.keys().cloned().collect();
    let secrets: Vec<String> = secrets.keys().map(ToString::to_string).collect();
    let reached: Vec<String> = reached.keys().map(ToString::to_string).collect();
    let lists = SettingList { place };
    let mut settings = vec![home_setting(home, environment), lists.port(*port, environment)];
    let mut selected = Vec::new();
    for name in ProviderName::ALL {
        let selection = SelectedServer::select_server(name, file);
        settings.push(lists.enabled(name, file));
        if let Some(vendor) = selection.vendor {
            settings.push(lists.written(&format!("providers.{name}.vendor"), Some(json!(vendor)), Value::Null));
            selected.push(selection);
        } else {
            settings.extend(lists.server(&format!("providers.{name}"), &selection, environment));
        }
    }
    for vendor in vendors.keys() {
        let is_listed = selected.iter().any(|selection| selection.vendor == Some(vendor));
        if !is_listed {
            let provider = Preset::find_by_name(vendor).map_or(ProviderName::Hosted, |preset| preset.provider);
            selected.push(SelectedServer::of_vendor(provider, vendor, file));
        }
    }
    for selection in &selected {
        let vendor = selection.vendor.expect("only vendors are in the list");
        settings.extend(lists.server(&format!("vendors.{vendor}"), selection, environment));
    }
    if !prices.is_empty() {
        let names: Vec<&String> = prices.keys().collect();
        settings.push(lists.written("prices", Some(json!(names)), Value::Null));
    }
    let auth_name = match auth {
        AuthPolicy::SameUser => "same-user",
        AuthPolicy::Token => "token",
    };
    settings.extend([
        lists.text("logging.level", Some(log_level(file, environment))),
        lists.written(
            "context.vault",
            vault.as_ref().map(|path| json!(path.to_string_lossy())),
            Value::Null,
        ),
        lists.written(
            "reports.directory",
            directory.as_ref().map(|path| json!(path)),
            Value::Null,
        ),
        lists.written(
            "server.address",
            (*address != loopback).then(|| json!(address)),
            json!(loopback),
        ),
        lists.array("server.hosts", hosts),
        lists.array("server.cors_origins", cors_origins),
        lists.written(
            "server.auth",
            (*auth != AuthPolicy::default()).then(|| json!(auth_name)),
            json!(auth_name),
        ),
        lists.written(
            "server.idle_minutes",
            idle_minutes.map(|minutes| json!(minutes)),
            Value::Null,
        ),
        lists.array("policy.hide", hide),
        lists.array("policy.reveal", reveal),
        lists.array("policy.protect", protect),
        lists.array("policy.unredacted", unredacted),
        lists.array("policy.team", team),
        lists.array("policy.allow", allow),
        lists.array("policy.deny", deny),
        lists.written(
            "policy.require_sandbox",
            require_sandbox.then(|| json!(true)),
            json!(false),
        ),
        lists.written("policy.untrusted", untrusted.then(|| json!(true)), json!(false)),
        lists.written("policy.home", home_is_repository.then(|| json!(true)), json!(false)),
        lists.array("policy.mcp", &operations),
        lists.written(
            "policy.hooks",
            (*hooks == HookRuns::Sandbox).then(|| json!("sandbox")),
            json!("none"),
        ),
        lists.written(
            "skills.require_signature",
            require_signature.then(|| json!(true)),
            json!(false),
        ),
        // Only the names are listed: the keys are long, and are not secret.
        lists.array("skills.identities", &names),
        lists.array("skills.config", &configured),
        lists.array("skills.secrets", &secrets),
        lists.array("skills.hosts", &reached),
        lists.array("tests.command", command),
        lists.written("tests.results", results.as_ref().map(|form| json!(form)), json!("exit")),
        lists.array("tests.format", format),
        lists.array("tests.lint", lint),
        lists.array("tests.types", types),
        lists.array("tests.build", build),
    ]);
    settings
}

/// Creates settings that come from the file at `place`.
struct SettingList<'a> {
    place: &'a Path,
}

impl SettingList<'_> {
    fn enabled(&self, name: ProviderName, file: &ConfigFile) -> Setting {
        let is_enabled = file.providers.get(&name).is_some_and(FileProvider::is_enabled);
        self.written(
            &format!("providers.{name}.enabled"),
            is_enabled.then(|| json!(true)),
            json!(false),
        )
    }

    /// The settings of a server. Optional ones without a default are listed only if they are set.
    fn server(&self, prefix: &str, selection: &SelectedServer<'_>, environment: &Environment) -> Vec<Setting> {
        let FileProvider {
            api_key: _,
            api_key_command: _,
            model: _,
            enabled: _,
            vendor: _,
            url: _,
            api,
            region,
            project,
            resource,
            key_header,
            headers,
            reasoning_effort,
            thinking_budget,
            temperature,
            max_output_tokens,
            context_tokens,
            text_calls,
            first_byte_seconds,
            idle_seconds,
            trust_loopback_user,
            ca_file,
        } = selection.table;
        let key = |key: &str| format!("{prefix}.{key}");
        let spoken = selection.api();
        let url = selection.url_as_written().map(|url| Sourced {
            value: mask_url(&url.value),
            ..url
        });
        let mut settings = vec![
            self.written(&key("api"), api.map(|api| json!(api.name())), json!(spoken.name())),
            self.text(&key("url"), url),
            self.text(&key("model"), selection.model(environment)),
            self.secret(&key("api_key"), selection.api_key(environment)),
            self.written(&key("text_calls"), text_calls.map(|on| json!(on)), json!(false)),
            self.seconds(
                &key("first_byte_seconds"),
                *first_byte_seconds,
                PROVIDER_FIRST_BYTE_SECONDS_MAX,
            ),
            self.seconds(&key("idle_seconds"), *idle_seconds, PROVIDER_IDLE_SECONDS_MAX),
            self.written(
                &key("trust_loopback_user"),
                trust_loopback_user.as_ref().map(|user| json!(user)),
                Value::Null,
            ),
        ];
        let names: Vec<&String> = headers.keys().collect();
        let optional = [
            ("region", region.as_ref().map(|text| json!(text))),
            ("project", project.as_ref().map(|text| json!(text))),
            ("resource", resource.as_ref().map(|text| json!(text))),
            ("key_header", key_header.as_ref().map(|text| json!(text))),
            ("ca_file", ca_file.as_ref().map(|path| json!(path.to_string_lossy()))),
            // Only the names: a value may be a key.
            ("headers", (!names.is_empty()).then(|| json!(names))),
            ("reasoning_effort", reasoning_effort.map(|effort| json!(effort.name()))),
            ("thinking_budget", thinking_budget.map(|tokens| json!(tokens))),
            ("temperature", temperature.map(|number| json!(number.value()))),
            ("max_output_tokens", max_output_tokens.map(|tokens| json!(tokens))),
            ("context_tokens", context_tokens.map(|tokens| json!(tokens))),
        ];
        for (name, value) in optional {
            if value.is_some() {
                settings.push(self.written(&key(name), value, Value::Null));
            }
        }
        settings
    }

    fn origin(&self, layer: ValueLayer) -> ValueOrigin {
        match layer {
            ValueLayer::Default => ValueOrigin::Default,
            ValueLayer::File => ValueOrigin::File(self.place.to_owned()),
            ValueLayer::Environment(name) => ValueOrigin::Environment(name),
        }
    }

    /// A setting that only the file can set; `file` is absent if the file has the default.
    fn written(&self, key: &str, file: Option<Value>, default: Value) -> Setting {
        let layer = if file.is_some() {
            ValueLayer::File
        } else {
            ValueLayer::Default
        };
        Setting::new(key, file.unwrap_or(default), self.origin(layer))
    }

    fn seconds(&self, key: &str, file: Option<NonZeroU32>, default: u64) -> Setting {
        self.written(key, file.map(|seconds| json!(seconds)), json!(default))
    }

    fn port(&self, file: Option<u16>, environment: &Environment) -> Setting {
        const KEY: &str = "server.port";
        match (environment.get("TOOL_BACKEND_PORT"), environment.port()) {
            (Some(_), Ok(Some(port))) => Setting::new(KEY, port, ValueOrigin::Environment("TOOL_BACKEND_PORT")),
            (Some(text), _) => Setting::new(KEY, text, ValueOrigin::Environment("TOOL_BACKEND_PORT")),
            (None, _) => self.written(KEY, file.map(|port| json!(port)), json!(DEFAULT_PORT)),
        }
    }

    fn array(&self, key: &str, values: &[String]) -> Setting {
        self.written(key, (!values.is_empty()).then(|| json!(values)), json!([]))
    }

    fn text(&self, key: &str, value: Option<Sourced<String>>) -> Setting {
        match value {
            Some(Sourced { value, layer }) => Setting::new(key, value, self.origin(layer)),
            None => Setting::new(key, Value::Null, ValueOrigin::Default),
        }
    }

    fn secret(&self, key: &str, value: Option<Sourced<KeySource>>) -> Setting {
        let masked = value.map(|Sourced { value, layer }| Sourced {
            value: match value {
                KeySource::Key(key) => format!("set, {} characters", key.expose().chars().count()),
                KeySource::Command(command) => {
                    format!("set, by the command `{}`", command.first().map_or("", String::as_str))
                }
            },
            layer,
        });
        Setting {
            secret: masked.is_some(),
            ..self.text(key, masked)
        }
    }
}

fn home_setting(home: &Path, environment: &Environment) -> Setting {
    let origin = match environment.get("TOOL_HOME") {
        Some(_) => ValueOrigin::Environment("TOOL_HOME"),
        None => ValueOrigin::Default,
    };
    Setting::new("home", home.to_string_lossy(), origin)
}

/// Variables that sessions get and that the list of settings does not have.
fn also_forwarded(environment: &Environment) -> Vec<String> {
    let listed = |name: &str| {
        matches!(name, "HOSTED_MODEL" | "TOOL_LOG_LEVEL")
            || PRESETS
                .iter()
                .any(|preset| preset.variables().any(|variable| variable == name))
    };
    environment
        .forwarded()
        .into_keys()
        .filter(|name| !listed(name))
        .collect()
}

#[cfg(test)]
mod tests;
