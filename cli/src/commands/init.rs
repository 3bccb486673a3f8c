//! `tool init`: writes the configuration, asking on a terminal and deciding by itself elsewhere.

use std::io::{BufRead, Read};
use std::path::Path;
use std::process::ExitCode;

use host::api::ErrorKind;
use host::api::ProviderName;
use host::config::{self, Api, Init, Secret};

use super::Context;
use crate::args::{self, Wire};
use crate::error::Error;
use crate::output::Output;

/// Writes or changes the configuration file.
pub(super) fn run(arguments: &args::Init, context: &Context) -> Result<ExitCode, Error> {
    let is_there = config::path(&context.backend.home).exists();
    if let (Some(port), None, false, true) = (arguments.port, arguments.provider, arguments.offline, is_there) {
        let place = config::write_port(&context.backend.home, port)?;
        return say_port(&place, port, context);
    }
    let init = match arguments.provider {
        Some(provider) => from_flags(provider.into(), arguments)?,
        None if arguments.offline => Init::offline(),
        None if Output::can_ask() => ask(context)?,
        None => by_itself(context),
    };
    let written = config::write_initial(&context.backend.home, &init)?;
    if let Some(port) = arguments.port {
        config::write_port(&context.backend.home, port)?;
    }
    if !context.output.is_quiet() {
        context.output.line(&format!(
            "Wrote {}: the provider `{}` is enabled, at {}.",
            written.place.display(),
            init.provider,
            url_in_force(init.provider, context)
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
    // A configuration that cannot work yet is worth a word now rather than at the first command.
    if let Err(problem) = config::load(&context.backend.home, &context.backend.environment) {
        context.output.notice(&problem.message, problem.hint.as_deref());
    }
    Ok(ExitCode::SUCCESS)
}

/// URL for requests, from the configuration as it is now; without secrets.
fn url_in_force(provider: ProviderName, context: &Context) -> String {
    let key = format!("providers.{provider}.url");
    let inspection = config::inspect(&context.backend.home, &context.backend.environment);
    let setting = inspection.settings.into_iter().find(|setting| setting.key == key);
    let url = setting.and_then(|setting| setting.value.as_str().map(str::to_owned));
    url.unwrap_or_else(|| "its own address".to_owned())
}

fn say_port(place: &Path, port: u16, context: &Context) -> Result<ExitCode, Error> {
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

fn from_flags(provider: ProviderName, arguments: &args::Init) -> Result<Init, Error> {
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
    Ok(Init {
        provider,
        api: arguments.api.map(Wire::into),
        url: arguments.url.clone(),
        model: arguments.model.clone(),
        api_key,
    })
}

/// True for a URL that `--url` and the wizard accept; the configuration checks a hand-edited file likewise.
fn is_url(text: &str) -> bool {
    text == config::ANALYST_URL
        || text == config::DEFAULT_URL
        || text.starts_with("http://")
        || text.starts_with("https://")
}

/// Keys are some hundred bytes; a file that is not a key should not end up in the configuration.
const KEY_BYTES_MAX: u64 = 4096;

/// Without a terminal: hosted where its key is set, else the embedded analyst.
fn by_itself(context: &Context) -> Init {
    let environment = &context.backend.environment;
    if environment.get("HOSTED_API_KEY").is_some() && environment.get("HOSTED_MODEL").is_some() {
        context
            .output
            .progress("HOSTED_API_KEY and HOSTED_MODEL are set: enabling the provider `hosted`.");
        return Init {
            provider: ProviderName::Hosted,
            api: None,
            url: None,
            model: None,
            api_key: None,
        };
    }
    context
        .output
        .progress("No key in the environment: enabling the embedded analyst, which uses no language model.");
    Init::offline()
}

fn ask(context: &Context) -> Result<Init, Error> {
    let output = context.output;
    output.ask(
        "Which provider?\n  1  local     a model server on this machine, for example on port 1234\n  \
         2  hosted    a vendor's API, with a key\n  3  router    one API for several vendors, with a key\n  \
         4  analyst   no model, no key, no network: a deterministic overview\n",
    );
    match answer("Choice [4]: ", output)?.as_str() {
        "1" | "local" => Ok(Init {
            url: ask_url(output)?,
            model: Some(required("Model: ", output)?),
            ..blank(ProviderName::Local)
        }),
        "2" | "hosted" => {
            let api = match answer(
                "API: messages, chat, responses or generate-content [messages]: ",
                output,
            )?
            .as_str()
            {
                "chat" => Some(Api::Chat),
                "generate-content" => Some(Api::GenerateContent),
                "responses" => Some(Api::Responses),
                _ => None,
            };
            Ok(Init {
                api,
                model: Some(required("Model: ", output)?),
                ..blank(ProviderName::Hosted)
            })
        }
        "3" | "router" => Ok(Init {
            model: Some(required("Model, as vendor/name: ", output)?),
            ..blank(ProviderName::Router)
        }),
        "" | "4" | "analyst" => Ok(Init::offline()),
        other => Err(Error::new(
            ErrorKind::Usage,
            format!("Not one of the choices: `{other}`"),
        )),
    }
}

fn blank(provider: ProviderName) -> Init {
    Init {
        provider,
        api: None,
        url: None,
        model: None,
        api_key: None,
    }
}

fn answer(question: &str, output: Output) -> Result<String, Error> {
    output.ask(question);
    let mut line = String::new();
    match std::io::stdin().lock().read_line(&mut line) {
        Ok(0) | Err(_) => Err(Error::new(ErrorKind::Usage, "No answer; nothing was written")),
        Ok(_) => Ok(line.trim().to_owned()),
    }
}

fn required(question: &str, output: Output) -> Result<String, Error> {
    loop {
        let text = answer(question, output)?;
        if !text.is_empty() {
            return Ok(text);
        }
        output.ask("This is needed.\n");
    }
}

fn ask_url(output: Output) -> Result<Option<String>, Error> {
    loop {
        let text = answer("Base URL [http://127.0.0.1:1234/v1]: ", output)?;
        if text.is_empty() || is_url(&text) {
            return Ok(Some(text).filter(|text| !text.is_empty()));
        }
        output.ask("It begins with http:// or https://.\n");
    }
}
