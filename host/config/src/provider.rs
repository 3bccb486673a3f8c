//! Resolves one provider from the file and the environment: its server, wire and key.
//!
//! `[providers.NAME]` either describes its server itself or names a vendor; then `[vendors.VENDOR]`, and below it the
//! vendor's [`Preset`], describe the server. A value for one server never applies to another.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use tool_core::api::{ErrorKind, Problem, ProviderName};

use super::layer::{Sourced, ValueLayer, first_layer};
use super::mask::mask_url;
use super::request_options::{HeaderProblem, Reasoning, RequestOptions, carries_key, is_header_name, resolve_headers};
use super::vendors::{self, MODEL, Preset, Quirks, UrlParts, fill_model, is_url_part};
use super::{
    ANALYST_URL, ConfigFile, Environment, FileProvider, ProviderApi, ProviderSettings, ProviderTimeouts, Secret,
    expand_home,
};

/// Least budget for thinking, in tokens, that vendors accept; 0 turns it off.
const THINKING_BUDGET_MIN: u32 = 128;

const KEY_COMMAND_WORDS_MAX: usize = 32;

/// The server of a provider, as the file describes it.
#[derive(Debug, Clone, Copy)]
pub(super) struct SelectedServer<'f> {
    pub(super) provider: ProviderName,
    pub(super) vendor: Option<&'f str>,
    /// The vendor's row, also if the vendor follows from provider and wire.
    pub(super) preset: Option<&'static Preset>,
    /// The table that describes it.
    pub(super) table: &'f FileProvider,
}

/// A table without settings.
static UNSET: FileProvider = FileProvider::unset();

impl<'f> SelectedServer<'f> {
    pub(super) fn select_server(name: ProviderName, file: &'f ConfigFile) -> Self {
        let own = file.providers.get(&name).unwrap_or(&UNSET);
        match own.vendor.as_deref() {
            Some(vendor) => Self::of_vendor(name, vendor, file),
            None => Self::of_provider(name, own),
        }
    }

    /// The server in the provider's own table, whether or not it names a vendor.
    pub(super) fn of_provider(name: ProviderName, table: &'f FileProvider) -> Self {
        Self {
            provider: name,
            vendor: None,
            preset: match table.url {
                None => Preset::implied_by_wire(name, api_of(name, table)),
                Some(_) => None,
            },
            table,
        }
    }

    /// True if its table contains settings of a server.
    pub(super) fn is_described(&self) -> bool {
        let table = self.table;
        table.url.is_some() || table.model.is_some() || table.api_key.is_some() || !table.api_key_command.is_empty()
    }

    /// A vendor's server, whether or not a provider uses it.
    pub(super) fn of_vendor(provider: ProviderName, vendor: &'f str, file: &'f ConfigFile) -> Self {
        Self {
            provider,
            vendor: Some(vendor),
            preset: Preset::find_by_name(vendor),
            table: file.vendors.get(vendor).unwrap_or(&UNSET),
        }
    }

    /// Name of its section: `[providers.hosted]` or `[vendors.groq]`.
    pub(super) fn section(&self) -> String {
        match self.vendor {
            Some(vendor) => format!("[vendors.{vendor}]"),
            None => format!("[providers.{}]", self.provider),
        }
    }

    /// ``the vendor `groq` `` or ``the provider `hosted` ``.
    fn words(&self) -> String {
        match self.vendor {
            Some(vendor) => format!("the vendor `{vendor}`"),
            None => format!("the provider `{}`", self.provider),
        }
    }

    fn is_analyst(&self) -> bool {
        self.table.url.as_deref() == Some(ANALYST_URL)
    }

    /// Its wire, or the wire that it would have with valid settings.
    pub(super) fn api(&self) -> ProviderApi {
        match (self.vendor, self.preset) {
            (None, _) => api_of(self.provider, self.table),
            (Some(_), preset) => {
                let usual = preset.map_or(ProviderApi::Chat, |preset| preset.api);
                self.table.api.unwrap_or(usual)
            }
        }
    }

    /// Its URL, placeholders and all.
    pub(super) fn url_as_written(&self) -> Option<Sourced<String>> {
        let default = match (self.vendor, self.preset) {
            (Some(_), preset) => preset.map(|preset| preset.url),
            (None, _) => Some(match self.provider {
                ProviderName::Hosted => self.api().hosted_url(),
                ProviderName::Local => "http://127.0.0.1:1234/v1",
                ProviderName::Router => "https://openrouter.ai/api/v1",
            }),
        };
        let written = self.table.url.as_ref().map(|url| url.trim_end_matches('/').to_owned());
        first_layer(None, written, || default.map(str::to_owned))
    }

    pub(super) fn model(&self, environment: &Environment) -> Option<Sourced<String>> {
        if self.is_analyst() {
            return first_layer(None, Some(ANALYST_URL.to_owned()), || None);
        }
        // `HOSTED_MODEL` is for the vendors whose key variable is in the specification, too.
        let may_use = self.provider == ProviderName::Hosted
            && (self.vendor.is_none() || self.preset.is_some_and(|preset| preset.own_variable.is_some()));
        let variable = environment.get("HOSTED_MODEL").filter(|_| may_use);
        first_layer(
            variable.map(|model| ("HOSTED_MODEL", model.to_owned())),
            self.table.model.clone().filter(|model| !model.is_empty()),
            || None,
        )
    }

    /// The specification's variable for its key.
    pub(super) fn own_variable(&self) -> Option<&'static str> {
        match (self.vendor, self.provider) {
            (Some(_), _) => self.preset.and_then(|preset| preset.own_variable),
            (None, ProviderName::Hosted) => Some(self.api().hosted_key_variable()),
            (None, ProviderName::Router) => Some("ROUTER_API_KEY"),
            (None, ProviderName::Local) => None,
        }
    }

    /// Its key: the specification's variable, then the file, then the variables that are usual for this vendor. The
    /// file may name a command in place of the key.
    pub(super) fn api_key(&self, environment: &Environment) -> Option<Sourced<KeySource>> {
        let of_variable = |variable: &'static str| {
            let key = Secret::new(environment.get(variable)?);
            Some(Sourced {
                value: KeySource::Key(key),
                layer: ValueLayer::Environment(variable),
            })
        };
        let of_file = || {
            let key = self.table.api_key.clone().filter(|key| !key.expose().is_empty());
            let command = (!self.table.api_key_command.is_empty()).then(|| self.table.api_key_command.clone());
            let value = key.map(KeySource::Key).or_else(|| command.map(KeySource::Command))?;
            Some(Sourced {
                value,
                layer: ValueLayer::File,
            })
        };
        let usual = self.preset.map_or(&[][..], |preset| preset.usual_variables);
        self.own_variable()
            .and_then(of_variable)
            .or_else(of_file)
            .or_else(|| usual.iter().copied().find_map(of_variable))
    }

    fn needs_key(&self) -> bool {
        let is_required = match (self.vendor, self.preset) {
            (Some(_), preset) => preset.is_some_and(|preset| preset.needs_key),
            (None, _) => self.own_variable().is_some(),
        };
        is_required && !carries_key(&self.table.headers, self.key_header())
    }

    fn key_header(&self) -> Option<&str> {
        let usual = self.preset.filter(|_| self.vendor.is_some());
        self.table
            .key_header
            .as_deref()
            .or_else(|| usual.and_then(|preset| preset.quirks.key_header))
    }

    /// Names of the variables that may hold its key, formatted for a message.
    fn variables(&self) -> Vec<&'static str> {
        let usual = self.preset.map_or(&[][..], |preset| preset.usual_variables);
        self.own_variable().into_iter().chain(usual.iter().copied()).collect()
    }

    /// The places that may hold its key, best first, as the end of the sentence `set …`.
    pub(super) fn key_places(&self) -> String {
        let section = self.section();
        match (self.vendor, &self.variables()[..]) {
            (_, []) => format!("`api_key` in {section} of config.toml"),
            (None, [first, ..]) => format!("{first}, or `api_key` in {section} of config.toml"),
            (Some(_), [.., usual]) => {
                format!("{usual}, or `api_key` or `api_key_command` in {section} of config.toml")
            }
        }
    }

    fn invalid(&self, message: String, hint: impl Into<String>) -> Problem {
        Problem::new(ErrorKind::ConfigInvalid, message).with_hint(hint)
    }

    /// Advice for most mistakes in its table.
    fn mend(&self) -> String {
        match self.vendor {
            Some(_) => format!("mend {} of config.toml", self.section()),
            None => format!(
                "mend [providers.{0}] of config.toml, or run `tool init --provider {0}`",
                self.provider
            ),
        }
    }

    /// Resolves the settings of the provider.
    ///
    /// # Errors
    ///
    /// If a required setting is missing or a value is invalid.
    pub(super) fn resolve(&self, environment: &Environment) -> Result<ProviderSettings, Problem> {
        self.check_vendor()?;
        let api = self.check_wire()?;
        let key = self.api_key(environment).map(|key| key.value);
        if key.is_none() && self.needs_key() {
            return Err(
                Problem::new(ErrorKind::ConfigKeyMissing, format!("No API key for {}", self.words()))
                    .with_hint(format!("set {}", self.key_places())),
            );
        }
        let model = self.model(environment).ok_or_else(|| self.no_model())?.value;
        let (api_key, api_key_command) = match key {
            Some(KeySource::Key(key)) => (Some(key), Vec::new()),
            Some(KeySource::Command(command)) => (None, command),
            None => (None, Vec::new()),
        };
        let table = self.table;
        let url = self.url()?;
        Ok(ProviderSettings {
            vendor: self.vendor.map(str::to_owned),
            url: fill_model(&url, &model),
            url_by_model: url.contains(MODEL).then(|| url.clone()),
            api_key,
            api_key_command,
            key_header: self.key_header().map(str::to_ascii_lowercase),
            key_places: self.key_places(),
            quirks: match (self.vendor, self.preset) {
                (Some(_), Some(preset)) => preset.quirks,
                _ => Quirks::of_provider(self.provider),
            },
            options: self.options(environment)?,
            text_calls: table.text_calls.unwrap_or(false),
            context_tokens: table.context_tokens.map(|tokens| u64::from(tokens.get())),
            patience: ProviderTimeouts {
                first_byte: table.first_byte_seconds.map(to_seconds),
                idle: table.idle_seconds.map(to_seconds),
            },
            trust_loopback_user: table.trust_loopback_user.clone(),
            ca_file: self.ca_file(environment)?,
            ..ProviderSettings::new(self.provider, api, String::new(), model)
        })
    }

    fn ca_file(&self, environment: &Environment) -> Result<Option<PathBuf>, Problem> {
        let file = self.table.ca_file.clone().map(|file| expand_home(file, environment));
        match file {
            Some(file) if !file.is_absolute() => {
                let message = format!(
                    "`ca_file` of {} is no absolute path: `{}`",
                    self.words(),
                    file.display()
                );
                Err(self.invalid(message, self.mend()))
            }
            file => Ok(file),
        }
    }

    fn no_model(&self) -> Problem {
        let hint = match self.vendor {
            Some(vendor) => format!(
                "`tool models use {vendor} MODEL` sets it, or `model` in {} of config.toml",
                self.section()
            ),
            None => format!(
                "set `model` in [providers.{0}] of config.toml, or run `tool init --provider {0} --model MODEL`",
                self.provider
            ),
        };
        Problem::new(
            ErrorKind::ConfigModelMissing,
            format!("No model is set for {}", self.words()),
        )
        .with_hint(hint)
    }

    fn check_vendor(&self) -> Result<(), Problem> {
        let Some(vendor) = self.vendor else { return Ok(()) };
        match self.preset {
            None if self.table.url.is_none() => Err(self.invalid(
                format!("There is no vendor `{vendor}`"),
                format!(
                    "{}; a vendor of your own needs `url` in [vendors.{vendor}]",
                    vendors::suggest_vendor(vendor).trim_end_matches('?')
                ),
            )),
            Some(preset) if preset.provider != self.provider => Err(self.invalid(
                format!("The vendor `{vendor}` belongs to the provider `{}`", preset.provider),
                format!("`tool models use {vendor}` enables it there"),
            )),
            _ => Ok(()),
        }
    }

    /// Its wire, or the reason why `api` and `url` do not fit together.
    fn check_wire(&self) -> Result<ProviderApi, Problem> {
        let invalid = |message: String| Err(self.invalid(message, self.mend()));
        let (table, words) = (self.table, self.words());
        if let Some(url) = table.url.as_deref().filter(|_| !self.is_analyst())
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            return invalid(format!(
                "`url` of {words} is neither http:// nor https://: `{}`",
                mask_url(url)
            ));
        }
        let api = match (self.vendor, self.provider, table.api) {
            (None, ProviderName::Local, None) if self.is_analyst() => ProviderApi::Analyst,
            _ if self.is_analyst() => {
                return invalid(format!(
                    "`{ANALYST_URL}` belongs to the provider `local`, without `api`"
                ));
            }
            (Some(_), ..) | (None, ProviderName::Hosted, _) | (None, _, None | Some(ProviderApi::Chat)) => self.api(),
            (None, _, Some(_)) => {
                return Err(self.invalid(
                    format!("{words} speaks `chat` only"),
                    format!("{}; a vendor may speak any wire", self.mend()),
                ));
            }
        };
        // A key without effect is refused: the user would rely on it.
        if table.text_calls.is_some() && api != ProviderApi::Chat {
            return invalid(format!(
                "`text_calls` of {words} means nothing there: only `chat` reads calls out of text"
            ));
        }
        if table.api_key.is_some() && !table.api_key_command.is_empty() {
            return invalid(format!("{words} has both `api_key` and `api_key_command`"));
        }
        let words_of_command = &table.api_key_command;
        if words_of_command.len() > KEY_COMMAND_WORDS_MAX || words_of_command.first().is_some_and(String::is_empty) {
            return invalid(format!(
                "`api_key_command` of {words} is a list of a program and its arguments, at most {KEY_COMMAND_WORDS_MAX}"
            ));
        }
        if table
            .key_header
            .as_deref()
            .is_some_and(|name| !is_header_name(&name.to_ascii_lowercase()))
        {
            return invalid(format!("`key_header` of {words} is no name of a header"));
        }
        Ok(api)
    }

    /// Its URL with every placeholder except `{model}` replaced.
    fn url(&self) -> Result<String, Problem> {
        let (table, words) = (self.table, self.words());
        for (name, value) in [
            ("region", &table.region),
            ("project", &table.project),
            ("resource", &table.resource),
        ] {
            if value.as_deref().is_some_and(|value| !is_url_part(value)) {
                let message = format!("`{name}` of {words} is a name of letters, digits and `-_.:`");
                return Err(self.invalid(message, self.mend()));
            }
        }
        let parts = UrlParts {
            region: table.region.as_deref(),
            project: table.project.as_deref(),
            resource: table.resource.as_deref(),
        };
        let url = self
            .url_as_written()
            .expect("a vendor without a preset has a `url`")
            .value;
        parts.fill(&url).map_err(|missing| {
            self.invalid(
                format!("No `{missing}` is set for {words}"),
                format!("set `{missing}` in {} of config.toml", self.section()),
            )
        })
    }

    fn options(&self, environment: &Environment) -> Result<RequestOptions, Problem> {
        let (table, words) = (self.table, self.words());
        let invalid = |message: String| Err(self.invalid(message, self.mend()));
        let reasoning = match (table.reasoning_effort, table.thinking_budget) {
            (Some(_), Some(_)) => {
                return invalid(format!("{words} has both `reasoning_effort` and `thinking_budget`"));
            }
            (Some(effort), None) => Some(Reasoning::Effort(effort)),
            (None, Some(1..THINKING_BUDGET_MIN)) => {
                return invalid(format!(
                    "`thinking_budget` of {words} is 0 (no thinking) or at least {THINKING_BUDGET_MIN}"
                ));
            }
            (None, budget) => budget.map(Reasoning::Budget),
        };
        if let (Some(Reasoning::Budget(budget)), Some(bound)) = (reasoning, table.max_output_tokens)
            && budget >= bound.get()
        {
            return invalid(format!(
                "`thinking_budget` of {words} leaves no room for an answer: it must be below `max_output_tokens`"
            ));
        }
        let headers = resolve_headers(&table.headers, environment).map_err(|problem| self.header_problem(&problem))?;
        Ok(RequestOptions {
            reasoning,
            temperature: table.temperature,
            max_output_tokens: table.max_output_tokens,
            headers,
        })
    }

    fn header_problem(&self, problem: &HeaderProblem) -> Problem {
        let words = self.words();
        match problem {
            HeaderProblem::Unset { header, variable } => Problem::new(
                ErrorKind::ConfigKeyMissing,
                format!("The header `{header}` of {words} needs the variable {variable}, which is not set"),
            )
            .with_hint(format!(
                "set {variable}, or change `headers` in {} of config.toml",
                self.section()
            )),
            HeaderProblem::TooMany => self.invalid(format!("`headers` of {words} has too many entries"), self.mend()),
            HeaderProblem::Reserved(name) => self.invalid(
                format!("The header `{name}` of {words} cannot be set: the connection decides it"),
                self.mend(),
            ),
            HeaderProblem::BadName(name) => self.invalid(
                format!("`{name}` in `headers` of {words} is no name of a header"),
                self.mend(),
            ),
            HeaderProblem::BadValue(name) => self.invalid(
                format!("The value of the header `{name}` of {words} is empty or holds characters that no header has"),
                self.mend(),
            ),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeySource {
    Key(Secret),
    /// A program that prints it.
    Command(Vec<String>),
}

fn to_seconds(count: NonZeroU32) -> Duration {
    Duration::from_secs(count.get().into())
}

/// The wire of a provider without a vendor.
fn api_of(name: ProviderName, table: &FileProvider) -> ProviderApi {
    match name {
        ProviderName::Hosted => table.api.unwrap_or(ProviderApi::Messages),
        ProviderName::Local if table.url.as_deref() == Some(ANALYST_URL) => ProviderApi::Analyst,
        ProviderName::Local | ProviderName::Router => ProviderApi::Chat,
    }
}
