//! `tool init`: writes the configuration; asks on a terminal, and decides by itself elsewhere.

mod prompt;
mod wizard;

use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

use tool_config::{Environment, PRESETS, Preset, ProviderChoice, Secret, WrittenConfig};
use tool_core::api::{ErrorKind, Problem, ProviderName};

use super::CommandContext;
use super::models::server_named;
use crate::args::{self, Wire};
use crate::error::Error;
use crate::output::CommandOutput;

/// Writes or changes the configuration file.
pub(super) async fn run_init(arguments: &args::Init, context: &CommandContext) -> Result<ExitCode, Error> {
    let home = &context.backend.home;
    let is_there = tool_config::config_path(home).exists();
    let is_for_server = arguments.provider.is_some() || arguments.vendor.is_some() || arguments.offline;
    if let (Some(port), false, true) = (arguments.port, is_for_server, is_there) {
        let place = tool_config::write_port(home, port)?;
        return say_port(&place, port, context);
    }
    if !is_for_server && CommandOutput::can_ask() {
        wizard::run_wizard(context).await?;
        write_port(arguments, context)?;
        return Ok(wizard::say_next(context));
    }
    let init = match (&arguments.vendor, arguments.provider) {
        (Some(vendor), _) => of_vendor(vendor, arguments, context)?,
        (None, Some(provider)) => with_flags(ProviderChoice::for_provider(provider.into()), arguments)?,
        (None, None) if arguments.offline => ProviderChoice::offline(),
        (None, None) => by_itself(context),
    };
    let written = tool_config::write_initial(home, &init)?;
    write_port(arguments, context)?;
    say_written(&written, &init, context)?;
    // Warns now about a configuration that cannot work yet, rather than at the first command.
    if let Err(problem) = tool_config::load_settings(home, &context.backend.environment) {
        context.output.notice(&problem.message, problem.hint.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a configuration for a job unless there is one: for the named vendor, else by the environment.
pub(super) fn configure_job(vendor: Option<&str>, model: Option<&str>, context: &CommandContext) -> Result<(), Error> {
    let home = &context.backend.home;
    if tool_config::config_path(home).exists() {
        return vendor.map_or(Ok(()), |vendor| check_vendor(vendor, context));
    }
    let init = match vendor {
        Some(vendor) => ProviderChoice {
            model: model.map(str::to_owned),
            ..server_named(vendor)?
        },
        None => by_itself(context),
    };
    // A configuration that cannot work would break the next job in this home.
    tool_config::preview_provider(home, &context.backend.environment, &init)?;
    tool_config::write_initial(home, &init)?;
    Ok(())
}

/// Refuses a vendor other than the configured one: the code would go to a server that the job does not name.
fn check_vendor(vendor: &str, context: &CommandContext) -> Result<(), Error> {
    let servers = tool_config::list_servers(&context.backend.home, &context.backend.environment)?;
    let is_meant = |server: &tool_config::ConfiguredServer| {
        server.name == vendor || (vendor == "analyst" && server.url.as_deref() == Some(tool_config::ANALYST_URL))
    };
    match servers.iter().find(|server| server.enabled) {
        Some(server) if !is_meant(server) => {
            let message = format!("The configuration enables `{}`, and not `{vendor}`", server.name);
            let hint = "leave --vendor out, or set TOOL_HOME to a folder without a configuration";
            Err(Problem::new(ErrorKind::ProviderMismatch, message)
                .with_hint(hint)
                .into())
        }
        _ => Ok(()),
    }
}

/// Asks the questions of a set-up, for a command that found no configuration.
pub(super) async fn set_up(context: &CommandContext) -> Result<(), Error> {
    wizard::run_wizard(context).await
}

fn write_port(arguments: &args::Init, context: &CommandContext) -> Result<(), Error> {
    if let Some(port) = arguments.port {
        tool_config::write_port(&context.backend.home, port)?;
    }
    Ok(())
}

/// Configures a vendor by name. Fails without writing if the key or the model is missing.
fn of_vendor(vendor: &str, arguments: &args::Init, context: &CommandContext) -> Result<ProviderChoice, Error> {
    if !tool_config::is_vendor_name(vendor) {
        let message = format!("`{vendor}` is no vendor; nothing was written");
        return Err(Problem::new(ErrorKind::Usage, message)
            .with_hint(tool_config::suggest_vendor(vendor))
            .into());
    }
    let init = with_flags(server_named(vendor)?, arguments)?;
    tool_config::preview_provider(&context.backend.home, &context.backend.environment, &init)?;
    Ok(init)
}

fn say_written(written: &WrittenConfig, init: &ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    if !context.output.is_quiet() {
        let enabled = match &init.vendor {
            Some(vendor) => format!("the vendor `{vendor}`"),
            None => format!("the provider `{}`", init.provider),
        };
        context.output.line(&format!(
            "Wrote {}: {enabled} is enabled, at {}.",
            written.place.display(),
            url_in_force(init, context)
        ))?;
    }
    if let Some(url) = &written.dropped {
        match init.url {
            Some(_) => context.output.notice(&format!("The new URL replaces {url}."), None),
            None => context.output.notice(
                &format!("The URL {url} belonged to another provider or API and was removed."),
                Some("`--url URL` sets one; `--url default` is the provider's own"),
            ),
        }
    }
    Ok(())
}

/// URL for requests, by the current configuration, without secrets.
fn url_in_force(init: &ProviderChoice, context: &CommandContext) -> String {
    let key = match &init.vendor {
        Some(vendor) => format!("vendors.{vendor}.url"),
        None => format!("providers.{}.url", init.provider),
    };
    let inspection = tool_config::inspect_config(&context.backend.home, &context.backend.environment);
    let setting = inspection.settings.into_iter().find(|setting| setting.key == key);
    let url = setting.and_then(|setting| setting.value.as_str().map(str::to_owned));
    url.unwrap_or_else(|| "its own address".to_owned())
}

fn say_port(place: &Path, port: u16, context: &CommandContext) -> Result<ExitCode, Error> {
    if !context.output.is_quiet() {
        context
            .output
            .line(&format!("Wrote {}: the backend's port is {port}.", place.display()))?;
    }
    if context.backend.running()?.is_some_and(|record| record.port != port) {
        let message = "The running backend keeps its port.";
        let hint = match context.backend.environment.get("TOOL_BACKEND_PORT") {
            Some(_) => "TOOL_BACKEND_PORT is set and wins over the file: unset it, then `tool service restart`",
            None => "`tool service restart` takes the new one",
        };
        context.output.notice(message, Some(hint));
    }
    Ok(ExitCode::SUCCESS)
}

/// A server with the values of the flags.
fn with_flags(init: ProviderChoice, arguments: &args::Init) -> Result<ProviderChoice, Error> {
    if let Some(url) = &arguments.url
        && !is_url(url)
    {
        let message = format!("`{url}` is neither http:// nor https://; nothing was written");
        return Err(Error::new(ErrorKind::Usage, message));
    }
    let api_key = if arguments.api_key_stdin {
        let mut key = String::new();
        std::io::stdin()
            .lock()
            .take(KEY_BYTES_MAX)
            .read_to_string(&mut key)
            .map_err(|error| Error::new(ErrorKind::Usage, format!("Standard input holds no key: {error}")))?;
        if key.trim().is_empty() {
            return Err(Error::new(
                ErrorKind::Usage,
                "Standard input holds no key; nothing was written",
            ));
        }
        Some(Secret::new(key.trim()))
    } else {
        None
    };
    let parts = [
        ("region", &arguments.region),
        ("project", &arguments.project),
        ("resource", &arguments.resource),
    ];
    let given = parts
        .into_iter()
        .filter_map(|(name, value)| Some((name, value.clone()?)));
    Ok(ProviderChoice {
        api: arguments.api.map(Wire::into),
        url: arguments.url.clone(),
        model: arguments.model.clone(),
        api_key,
        url_parts: given.collect(),
        ..init
    })
}

/// True for a URL that `--url` accepts. The configuration has the same check for a hand-edited file.
fn is_url(text: &str) -> bool {
    text == tool_config::ANALYST_URL
        || text == tool_config::DEFAULT_URL
        || text.starts_with("http://")
        || text.starts_with("https://")
}

/// Keys have some hundred bytes. Another file must not end up in the configuration.
const KEY_BYTES_MAX: u64 = 4096;

/// The choice without a terminal: hosted if its key is set, else the embedded analyst.
fn by_itself(context: &CommandContext) -> ProviderChoice {
    let environment = &context.backend.environment;
    if environment.get("HOSTED_API_KEY").is_some() && environment.get("HOSTED_MODEL").is_some() {
        context
            .output
            .progress("HOSTED_API_KEY and HOSTED_MODEL are set: enabling the provider `hosted`.");
        return ProviderChoice::for_provider(ProviderName::Hosted);
    }
    let analyst = "enabling the embedded analyst, which uses no language model.";
    match key_without_model(environment) {
        Some((variable, hint)) => context.output.notice(
            &format!("{variable} is set, and no model is named: {analyst}"),
            Some(&hint),
        ),
        None => context
            .output
            .progress(&format!("No key in the environment: {analyst}")),
    }
    ProviderChoice::offline()
}

/// A variable that holds the key of a vendor, and how to use it.
fn key_without_model(environment: &Environment) -> Option<(&'static str, String)> {
    if environment.get("HOSTED_API_KEY").is_some() {
        return Some((
            "HOSTED_API_KEY",
            "set HOSTED_MODEL to the model's identifier".to_owned(),
        ));
    }
    let presets = PRESETS.iter().filter_map(|preset| Preset::find_by_name(preset.name));
    presets.filter(|preset| preset.needs_key).find_map(|preset| {
        let variable = preset
            .variables()
            .find(|variable| environment.get(variable).is_some())?;
        Some((variable, format!("`--vendor {} --model MODEL` uses it", preset.name)))
    })
}
