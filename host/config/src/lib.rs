//! Configuration: defaults, the user's file, the environment and flags, resolved once for each session into
//! [`Settings`].
//!
//! Only this crate reads the environment. No setting comes from a repository: a repository must not name a URL, a key,
//! a command or a port. The file is parsed strictly; a key without effect is an error.

#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use tool_core::api::{ErrorKind, FORWARDED, McpOperation, Problem, ProviderName};
use tool_core::text::nearest_key;

mod edit;
#[cfg(any(test, fuzzing))]
#[path = "../../../tests/fuzz/entries/config.rs"]
pub mod fuzz;
mod layer;
mod live_config;
mod mask;
mod origin;
mod prices;
mod provider;
mod request_options;
mod servers;
mod skills;
mod user_commands;
mod values;
mod vendors;

pub use edit::{DEFAULT_URL, ProviderChoice, WrittenConfig, write_initial, write_port};
use layer::{Sourced, first_layer};
pub use live_config::LiveConfig;
pub use origin::{FileState, Inspection, Setting, ValueOrigin, check_exposure, exposed_key, inspect_config};
pub use prices::{PaidTokens, PriceRow, TokenPrice};
use provider::SelectedServer;
use request_options::header_variables;
pub use request_options::{Effort, ExtraHeader, Reasoning, RequestOptions, Temperature};
pub use servers::{ConfiguredServer, list_servers, preview_provider};
pub use skills::{DEFAULT_SECRET_HEADER, HostOrigin, SecretSettings, SkillsSettings};
pub use user_commands::{
    CommandOrigin, TestsSettings, UserCommand, set_user_command, unset_user_command, user_command, user_commands_path,
};
use values::check_log_level;
pub use values::place_of;
pub use vendors::{PRESETS, Preset, Quirks, suggest_vendor};

/// Default port of the backend (specification).
pub const DEFAULT_PORT: u16 = 8000;

/// Hint for a home that cannot be found or written.
pub const SET_HOME: &str = "set TOOL_HOME to a folder of yours that may be written";

/// True for an error that means that nothing can be written there, and that a retry cannot fix.
pub fn is_unwritable(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(error.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// The `url` that selects the embedded analyst.
pub const ANALYST_URL: &str = "builtin:analyst";

/// A key. Its debug form does not contain it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secret(String);

impl Secret {
    /// Wraps a key.
    pub fn new(key: impl Into<String>) -> Self {
        Self(key.into())
    }

    /// The key itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Secret(***)")
    }
}

/// The wire that a provider speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProviderApi {
    /// The Messages API.
    Messages,
    /// Chat Completions.
    Chat,
    /// generateContent.
    GenerateContent,
    /// The Responses API.
    Responses,
    /// No wire: the embedded analyst. Never written in a file; [`ANALYST_URL`] selects it.
    #[serde(skip)]
    Analyst,
}

impl ProviderApi {
    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Chat => "chat",
            Self::GenerateContent => "generate-content",
            Self::Responses => "responses",
            Self::Analyst => ANALYST_URL,
        }
    }

    /// Base URL of the vendor of this wire, for `hosted`.
    fn hosted_url(self) -> &'static str {
        match self {
            Self::Messages => "https://api.anthropic.com",
            Self::Chat | Self::Responses => "https://api.openai.com/v1",
            Self::GenerateContent => "https://generativelanguage.googleapis.com",
            Self::Analyst => ANALYST_URL,
        }
    }

    /// The variable with the key of `hosted` on this wire.
    fn hosted_key_variable(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "VENDOR_B_API_KEY",
            Self::GenerateContent => "VENDOR_C_API_KEY",
            Self::Messages | Self::Analyst => "HOSTED_API_KEY",
        }
    }
}

/// The enabled provider, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// Name of the provider.
    pub name: ProviderName,
    /// The vendor's name in the file; absent if the provider describes its server itself.
    pub vendor: Option<String>,
    /// Wire that it speaks.
    pub api: ProviderApi,
    /// Base URL without a trailing slash. The wire's path is inserted before the query.
    pub url: String,
    /// The URL with the placeholder `{model}`, for vendors with one URL for each model.
    pub url_by_model: Option<String>,
    /// Model identifier; `builtin:analyst` for the analyst.
    pub model: String,
    /// Its key, if it has one.
    pub api_key: Option<Secret>,
    /// A program and its arguments that print the key; empty if a key is set or none is needed.
    pub api_key_command: Vec<String>,
    /// Header for the key, in lower case, if it is not that of the wire.
    pub key_header: Option<String>,
    /// Places where the user can set the key, for hints.
    pub key_places: String,
    /// Peculiarities of its server.
    pub quirks: Quirks,
    /// Options that shape every request.
    pub options: RequestOptions,
    /// True if the model is known to print its tool calls as text, and such calls may count.
    pub text_calls: bool,
    /// Tokens of the model's context, if the user has set them.
    pub context_tokens: Option<u64>,
    /// Limits of its silence, if the user has set them.
    pub patience: ProviderTimeouts,
    /// Prices of models, by their identifiers.
    pub prices: BTreeMap<String, TokenPrice>,
    /// A user, by name or number, that may receive the data for a server on this machine, besides the user, root and
    /// system accounts.
    pub trust_loopback_user: Option<String>,
    /// A PEM file of certificate authorities that are trusted besides those of the machine.
    pub ca_file: Option<PathBuf>,
}

impl ProviderSettings {
    /// A provider without a key, with the defaults of all optional settings.
    pub fn new(name: ProviderName, api: ProviderApi, url: impl Into<String>, model: impl Into<String>) -> Self {
        Self {
            name,
            vendor: None,
            api,
            url: url.into(),
            url_by_model: None,
            model: model.into(),
            api_key: None,
            api_key_command: Vec::new(),
            key_header: None,
            key_places: format!("`api_key` in [providers.{name}] of config.toml"),
            quirks: Quirks::of_provider(name),
            options: RequestOptions::default(),
            text_calls: false,
            context_tokens: None,
            patience: ProviderTimeouts::default(),
            prices: BTreeMap::new(),
            trust_loopback_user: None,
            ca_file: None,
        }
    }

    /// Price of its model, if the user has set one.
    pub fn price(&self) -> Option<TokenPrice> {
        self.prices.get(&self.model).copied()
    }

    /// Name for people: the vendor's, else the provider's.
    pub fn display_name(&self) -> &str {
        self.vendor.as_deref().unwrap_or(self.name.name())
    }

    /// All its secrets: the key and the values of extra headers. Of `Bearer KEY` the key alone is a secret, too.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let headers = self.options.headers.iter().map(|header| &header.value);
        self.api_key.iter().chain(headers).flat_map(|secret| {
            let whole = secret.expose().trim();
            let bare = whole.split_once(' ').map(|(_, rest)| rest.trim());
            [Some(whole), bare].into_iter().flatten()
        })
    }

    /// Uses another model of the same server.
    pub fn set_model(&mut self, model: String) {
        if let Some(template) = &self.url_by_model {
            self.url = vendors::fill_model(template, &model);
        }
        self.model = model;
    }
}

/// Longest silence of a provider. An unset limit has the engine's default.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProviderTimeouts {
    /// Before the first byte of an answer.
    pub first_byte: Option<Duration>,
    /// Between two pieces of an answer.
    pub idle: Option<Duration>,
}

/// All resolved settings of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The one enabled provider.
    pub provider: ProviderSettings,
    /// All providers with their configured models.
    pub providers: Vec<ProviderSummary>,
    /// Folder of markdown notes.
    pub vault: Option<PathBuf>,
    /// Address and access of the server.
    pub server: ServerSettings,
    /// Rules for files and effects beyond the defaults.
    pub policy: PolicySettings,
    /// For the log; an `env_logger`-style level.
    pub log_level: String,
    /// Folder that gets `session-reports/`.
    pub reports: ReportsPlace,
}

/// Folder that gets `session-reports/`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ReportsPlace {
    /// The working directory of the request.
    #[default]
    WorkingDirectory,
    /// The root of the repository.
    Root,
    /// A folder of the user, by its absolute path.
    Folder(PathBuf),
    /// No reports are written.
    None,
}

impl ReportsPlace {
    fn parse_place(directory: Option<&str>, environment: &Environment) -> Result<Self, Problem> {
        Ok(match directory {
            None => Self::WorkingDirectory,
            Some("root") => Self::Root,
            Some("none") => Self::None,
            Some(path) => {
                let folder = expand_home(PathBuf::from(path), environment);
                if !folder.is_absolute() {
                    let message = format!("`directory` of [reports] is no absolute path: `{path}`");
                    return Err(Problem::new(ErrorKind::ConfigInvalid, message)
                        .with_hint("give an absolute path, one that begins with `~/`, `root` or `none`"));
                }
                Self::Folder(folder)
            }
        })
    }
}

/// The part of [`Settings`] that needs no provider. A key that only the starter of a session has, or a missing model,
/// must not make a daemon forget who may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommonSettings {
    /// Folder of markdown notes.
    pub vault: Option<PathBuf>,
    /// Address and access of the server.
    pub server: ServerSettings,
    /// Rules for files and effects beyond the defaults.
    pub policy: PolicySettings,
    /// For the log; an `env_logger`-style level.
    pub log_level: String,
    /// Signatures that added skills need.
    pub skills: SkillsSettings,
}

impl CommonSettings {
    fn from_file(file: ConfigFile, environment: &Environment) -> Self {
        Self {
            log_level: log_level(&file, environment).value,
            vault: file.context.vault.map(|vault| expand_home(vault, environment)),
            server: file.server,
            policy: file.policy,
            skills: file.skills,
        }
    }

    /// For a file that cannot be parsed: its restrictions are unknown, so every client needs the token.
    pub fn strict(environment: &Environment) -> Self {
        let mut common = Self::from_file(ConfigFile::default(), environment);
        common.server.auth = AuthPolicy::Token;
        common
    }
}

/// One provider for GET /models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSummary {
    /// Name of the provider.
    pub name: ProviderName,
    /// True for exactly one.
    pub enabled: bool,
    /// The configured model.
    pub model: Option<String>,
}

/// `[server]`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServerSettings {
    /// Address to listen on. On any other than a loopback address, every client needs the token.
    pub address: IpAddr,
    /// Host names besides loopback that a `Host` header may contain.
    pub hosts: Vec<String>,
    /// Origins of pages that may use the server, for example `http://localhost:5173`.
    pub cors_origins: Vec<String>,
    /// Peers that need the token.
    pub auth: AuthPolicy,
    /// Minutes without a session or a request after which the daemon ends; absent: it keeps running.
    pub idle_minutes: Option<NonZeroU32>,
    /// Port to listen on, unless TOOL_BACKEND_PORT is set; 0 means any free one.
    pub port: Option<u16>,
}

impl Default for ServerSettings {
    fn default() -> Self {
        Self {
            address: Ipv4Addr::LOCALHOST.into(),
            hosts: Vec::new(),
            cors_origins: Vec::new(),
            auth: AuthPolicy::default(),
            idle_minutes: None,
            port: None,
        }
    }
}

/// Peers that need the token.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AuthPolicy {
    /// A loopback peer that runs as the same user needs none (Linux).
    #[default]
    SameUser,
    /// Every client needs the token.
    Token,
}

/// `[policy]`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicySettings {
    /// Globs to hide, in addition to the built-in table.
    pub hide: Vec<String>,
    /// Globs to remove from the built-in table.
    pub reveal: Vec<String>,
    /// Globs that no proposal may touch, in addition to the built-in table.
    pub protect: Vec<String>,
    /// Redaction rules that the user has switched off; `all` means every rule.
    pub unredacted: Vec<String>,
    /// Authors of commits whose words count as the user's: addresses, and domains as `*@example.org`.
    pub team: Vec<String>,
    /// Effects that are allowed.
    pub allow: Vec<String>,
    /// Effects that are denied; wins over `allow`.
    pub deny: Vec<String>,
    /// Nothing runs outside of a full sandbox.
    pub require_sandbox: bool,
    /// No repository is trusted: every conversation is tainted from its start.
    pub untrusted: bool,
    /// A repository may contain the whole home directory.
    pub home: bool,
    /// Operations that other agents may start.
    pub mcp: Vec<McpOperation>,
    /// How the repository's git hooks run at a commit.
    pub hooks: HookRuns,
}

/// Where the git hooks of a repository run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookRuns {
    /// Nowhere.
    #[default]
    None,
    /// In the sandbox of test runs.
    Sandbox,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigFile {
    providers: BTreeMap<ProviderName, FileProvider>,
    vendors: BTreeMap<String, FileProvider>,
    prices: BTreeMap<String, TokenPrice>,
    logging: FileLogging,
    context: FileContext,
    reports: FileReports,
    server: ServerSettings,
    policy: PolicySettings,
    skills: SkillsSettings,
    tests: TestsSettings,
}

/// `[providers.NAME]` and, without `enabled` and `vendor`, `[vendors.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileProvider {
    api_key: Option<Secret>,
    api_key_command: Vec<String>,
    model: Option<String>,
    enabled: Option<bool>,
    vendor: Option<String>,
    url: Option<String>,
    api: Option<ProviderApi>,
    region: Option<String>,
    project: Option<String>,
    resource: Option<String>,
    key_header: Option<String>,
    headers: BTreeMap<String, String>,
    reasoning_effort: Option<Effort>,
    thinking_budget: Option<u32>,
    temperature: Option<Temperature>,
    max_output_tokens: Option<NonZeroU32>,
    context_tokens: Option<NonZeroU32>,
    text_calls: Option<bool>,
    first_byte_seconds: Option<NonZeroU32>,
    idle_seconds: Option<NonZeroU32>,
    trust_loopback_user: Option<String>,
    ca_file: Option<PathBuf>,
}

impl FileProvider {
    const fn unset() -> Self {
        Self {
            api_key: None,
            api_key_command: Vec::new(),
            model: None,
            enabled: None,
            vendor: None,
            url: None,
            api: None,
            region: None,
            project: None,
            resource: None,
            key_header: None,
            headers: BTreeMap::new(),
            reasoning_effort: None,
            thinking_budget: None,
            temperature: None,
            max_output_tokens: None,
            context_tokens: None,
            text_calls: None,
            first_byte_seconds: None,
            idle_seconds: None,
            trust_loopback_user: None,
            ca_file: None,
        }
    }

    fn is_enabled(&self) -> bool {
        self.enabled == Some(true)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileLogging {
    level: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileContext {
    vault: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct FileReports {
    directory: Option<String>,
}

/// A snapshot of the process environment.
#[derive(Clone, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// The environment of this process. Variables that are not UTF-8 are left out.
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the environment")]
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
        )
    }

    /// An environment with only these variables.
    pub fn new(variables: BTreeMap<String, String>) -> Self {
        Self(variables)
    }

    /// All variables, for a program that the user starts by name on their own files, such as a compiler.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.0
    }

    /// A variable; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// A lower timeout of repository scans in milliseconds, for tests. A daemon that a client starts never gets the
    /// variable, and a build without debug assertions ignores it.
    pub fn scan_time(&self) -> Option<Duration> {
        let lower = self.get("TOOL_TEST_SCAN_MS").filter(|_| cfg!(debug_assertions))?;
        lower.parse().ok().map(Duration::from_millis)
    }

    /// The version that a daemon reports; tests set another one. As with [`Self::scan_time`], a daemon that a client
    /// starts never gets the variable.
    pub fn version(&self) -> &str {
        let other = self.get("TOOL_TEST_VERSION").filter(|_| cfg!(debug_assertions));
        other.unwrap_or(env!("CARGO_PKG_VERSION"))
    }

    /// A lower idle time of the daemon in milliseconds, for tests.
    pub fn idle_time(&self) -> Option<Duration> {
        let lower = self.get("TOOL_TEST_IDLE_MS").filter(|_| cfg!(debug_assertions))?;
        lower.parse().ok().map(Duration::from_millis)
    }

    /// A file with the deviation of the clock, for tests, like [`Environment::scan_time`].
    pub fn wrong_clock(&self) -> Option<PathBuf> {
        let file = self.get("TOOL_TEST_CLOCK").filter(|_| cfg!(debug_assertions))?;
        Some(PathBuf::from(file))
    }

    /// Returns the variables that a client sends with a session.
    pub fn forwarded(&self) -> BTreeMap<String, String> {
        let wanted = FORWARDED
            .iter()
            .filter_map(|&name| Some((name.to_owned(), self.get(name)?.to_owned())));
        wanted.collect()
    }

    /// The per-user directory: `TOOL_HOME`, else `~/.tool`. If HOME is unset, as in many containers and service
    /// managers, the user database names the home directory.
    ///
    /// # Errors
    ///
    /// `TOOL_HOME` is empty or cannot be made absolute, or the user has no home directory.
    pub fn tool_home(&self) -> Result<PathBuf, Problem> {
        if let Some(home) = self.get("TOOL_HOME") {
            return std::path::absolute(home).map_err(|error| {
                Problem::new(
                    ErrorKind::ConfigInvalid,
                    format!("TOOL_HOME is not a usable path: {error}"),
                )
                .with_hint(SET_HOME)
            });
        }
        let home = self.get("HOME").map(PathBuf::from).or_else(std::env::home_dir);
        match home.filter(|home| home.is_absolute()) {
            Some(home) => Ok(home.join(".tool")),
            None => Err(
                Problem::new(ErrorKind::ConfigInvalid, "Neither TOOL_HOME nor HOME is set")
                    .with_hint("set TOOL_HOME to a folder of yours that may be written"),
            ),
        }
    }

    /// Returns the port in `TOOL_BACKEND_PORT`, if it is set.
    fn port(&self) -> Result<Option<u16>, Problem> {
        let Some(text) = self.get("TOOL_BACKEND_PORT") else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| {
            Problem::new(
                ErrorKind::ConfigInvalid,
                format!("TOOL_BACKEND_PORT is not a port: `{text}`"),
            )
            .with_hint("give a number from 0 to 65535; 0 takes any free port")
        })
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_set().entries(self.0.keys()).finish()
    }
}

/// Path of the configuration file.
pub fn config_path(home: &Path) -> PathBuf {
    home.join("config.toml")
}

/// Reads the file beneath `home` and resolves it with `environment`, which wins over the file.
///
/// # Errors
///
/// If the file is missing, cannot be parsed, or lacks a setting that the enabled provider needs.
pub fn load_settings(home: &Path, environment: &Environment) -> Result<Settings, Problem> {
    let text = origin::read_file(&config_path(home))?;
    let file = parse(&text)?;
    check_log_level(&log_level(&file, environment), &text)?;
    resolve_settings(file, environment)
}

/// The text of the configuration file, to locate a setting in it; empty if the file cannot be read.
pub fn config_text(home: &Path) -> String {
    origin::read_file(&config_path(home)).unwrap_or_default()
}

/// Reads the settings that need no provider. Without a file, returns the defaults.
///
/// # Errors
///
/// If the file cannot be read or parsed.
pub fn load_common(home: &Path, environment: &Environment) -> Result<CommonSettings, Problem> {
    let file = match origin::read_file(&config_path(home)) {
        Ok(text) => parse(&text)?,
        Err(problem) if problem.kind == ErrorKind::ConfigMissing => ConfigFile::default(),
        Err(problem) => return Err(problem),
    };
    Ok(CommonSettings::from_file(file, environment))
}

/// The variables that a client sends with a session, including those that `headers` of the file names.
pub fn forwarded_variables(home: &Path, environment: &Environment) -> BTreeMap<String, String> {
    let mut variables = environment.forwarded();
    for name in named_variables(home) {
        if let Some(value) = environment.get(&name) {
            variables.insert(name, value.to_owned());
        }
    }
    variables
}

/// The variables in `headers` of the file; empty if it cannot be parsed.
pub fn named_variables(home: &Path) -> BTreeSet<String> {
    let file = origin::read_file(&config_path(home))
        .and_then(|text| parse(&text))
        .unwrap_or_default();
    let tables = file.providers.values().chain(file.vendors.values());
    tables
        .flat_map(|table| header_variables(&table.headers))
        .map(str::to_owned)
        .collect()
}

/// True for a variable with the key of a vendor.
pub fn is_key_variable(name: &str) -> bool {
    PRESETS
        .iter()
        .any(|preset| preset.variables().any(|variable| variable == name))
}

/// The port of the backend: `TOOL_BACKEND_PORT`, else `port` of `[server]`, else 8000; 0 means any free port. A file
/// that cannot be parsed is ignored.
///
/// # Errors
///
/// If `TOOL_BACKEND_PORT` is not a number from 0 to 65535.
pub fn backend_port(home: &Path, environment: &Environment) -> Result<u16, Problem> {
    let of_file = || load_common(home, environment).ok()?.server.port;
    Ok(environment.port()?.or_else(of_file).unwrap_or(DEFAULT_PORT))
}

fn parse(text: &str) -> Result<ConfigFile, Problem> {
    if let Err(error) = text.parse::<toml::Table>() {
        return Err(
            Problem::new(ErrorKind::ConfigInvalid, "Failed to parse config: Invalid TOML syntax").with_hint(format!(
                "{}: {}",
                place_in(text, error.span()),
                error.message()
            )),
        );
    }
    let file: ConfigFile = toml::from_str(text).map_err(|error| {
        let message = format!("Failed to parse config: {}", error.message());
        let mut hint = place_in(text, error.span());
        if let Some(near) = nearest_key(error.message()) {
            hint = format!("{hint}; did you mean `{near}`?");
        }
        Problem::new(ErrorKind::ConfigInvalid, message).with_hint(hint)
    })?;
    check_vendor_tables(&file)?;
    Ok(file)
}

/// `[vendors.NAME]` describes a server; `[providers.NAME]` decides whether it is used.
fn check_vendor_tables(file: &ConfigFile) -> Result<(), Problem> {
    let invalid = |message: String, hint: &str| Err(Problem::new(ErrorKind::ConfigInvalid, message).with_hint(hint));
    for (name, table) in &file.vendors {
        if !is_vendor_name(name) {
            return invalid(
                format!("Failed to parse config: `{name}` cannot be the name of a vendor"),
                "use up to 40 lower-case letters, digits, `-` and `_`; hosted, local, router and analyst are taken",
            );
        }
        let misplaced = [("enabled", table.enabled.is_some()), ("vendor", table.vendor.is_some())];
        if let Some((key, _)) = misplaced.into_iter().find(|(_, is_set)| *is_set) {
            return invalid(
                format!("Failed to parse config: `{key}` does not belong into [vendors.{name}]"),
                "set it in [providers.hosted], [providers.local] or [providers.router]",
            );
        }
    }
    Ok(())
}

/// True if the user may give this name to a vendor of their own.
pub fn is_vendor_name(name: &str) -> bool {
    let taken = ["hosted", "local", "router", "analyst"];
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
    !name.is_empty() && name.len() <= 40 && name.chars().all(allowed) && !taken.contains(&name)
}

/// `line 3, column 7 of config.toml`.
fn place_in(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    format!("{} of config.toml", line_and_column(text, span))
}

fn line_and_column(text: &str, span: Option<std::ops::Range<usize>>) -> String {
    let before = &text[..span.map_or(0, |span| span.start).min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    format!("line {line}, column {column}")
}

fn resolve_settings(file: ConfigFile, environment: &Environment) -> Result<Settings, Problem> {
    let enabled: Vec<ProviderName> = file
        .providers
        .iter()
        .filter(|(_, provider)| provider.is_enabled())
        .map(|(&name, _)| name)
        .collect();
    let name = match enabled[..] {
        [name] => name,
        [] => {
            return Err(Problem::new(ErrorKind::ConfigInvalid, "No provider is enabled")
                .with_hint("set `enabled = true` for one provider, or run `tool init --provider NAME`"));
        }
        _ => {
            let names: Vec<&str> = enabled.iter().map(|name| name.name()).collect();
            return Err(Problem::new(
                ErrorKind::ConfigInvalid,
                format!("More than one provider is enabled: {}", names.join(" and ")),
            )
            .with_hint("exactly one may have `enabled = true`; `tool init --provider NAME` switches"));
        }
    };
    let providers = ProviderName::ALL.map(|each| ProviderSummary {
        name: each,
        enabled: each == name,
        model: file
            .providers
            .contains_key(&each)
            .then(|| SelectedServer::select_server(each, &file).model(environment))
            .flatten()
            .map(|model| model.value),
    });
    let provider = ProviderSettings {
        prices: file.prices.clone(),
        ..SelectedServer::select_server(name, &file).resolve(environment)?
    };
    let reports = ReportsPlace::parse_place(file.reports.directory.as_deref(), environment)?;
    let CommonSettings {
        vault,
        server,
        policy,
        log_level,
        skills: _,
    } = CommonSettings::from_file(file, environment);
    Ok(Settings {
        provider,
        providers: providers.into(),
        vault,
        server,
        policy,
        log_level,
        reports,
    })
}

fn log_level(file: &ConfigFile, environment: &Environment) -> Sourced<String> {
    let variable = environment.get("TOOL_LOG_LEVEL");
    first_layer(
        variable.map(|level| ("TOOL_LOG_LEVEL", level.to_owned())),
        file.logging.level.clone(),
        || Some("INFO".to_owned()),
    )
    .expect("there is a default")
}

fn expand_home(path: PathBuf, environment: &Environment) -> PathBuf {
    match (path.strip_prefix("~"), environment.get("HOME")) {
        (Ok(rest), Some(home)) => Path::new(home).join(rest),
        _ => path,
    }
}

#[cfg(test)]
mod tests;
