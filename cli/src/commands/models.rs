//! `tool models`: the configured servers, the models of the enabled one, and switching between servers.

use std::process::ExitCode;

use serde::Serialize;
use tool_config::{ConfiguredServer, Preset, ProviderChoice};
use tool_core::api::{ErrorKind, Problem, ProviderName};
use tool_provider::ListedModel;

use super::{CommandContext, print_json};
use crate::args::{ModelsArguments, ModelsCommand};
use crate::error::Error;
use crate::output::CommandOutput;

pub(super) async fn run_models(arguments: ModelsArguments, context: &CommandContext) -> Result<ExitCode, Error> {
    match arguments.command {
        None => list_models(arguments.json, context).await,
        Some(ModelsCommand::Use { vendor, model }) => switch_model(&vendor, model, context),
    }
}

#[derive(Serialize)]
struct ModelsReport {
    servers: Vec<ConfiguredServer>,
    /// Models of the enabled server; absent if it could not be asked.
    models: Option<Vec<ListedModel>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<Problem>,
}

async fn list_models(json: bool, context: &CommandContext) -> Result<ExitCode, Error> {
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let servers = tool_config::list_servers(home, environment)?;
    let asked = match tool_config::load_settings(home, environment) {
        Ok(settings) => {
            let options = super::provider_options(context);
            let what = format!("asking {} for its models", settings.provider.display_name());
            let answer = tool_provider::describe_models(&settings.provider, &options);
            super::wait_for_answer(what, answer, context.output).await
        }
        Err(problem) => Err(problem),
    };
    let (models, problem) = match asked {
        Ok(models) => (Some(models), None),
        Err(problem) => (None, Some(problem)),
    };
    let report = ModelsReport {
        servers,
        models,
        problem,
    };
    if json {
        print_json(&report, context.output)?;
    } else {
        print_report(&report, context.output)?;
    }
    Ok(match &report.problem {
        Some(problem) => ExitCode::from(problem.kind.exit_code()),
        None => ExitCode::SUCCESS,
    })
}

fn print_report(report: &ModelsReport, output: CommandOutput) -> Result<(), Error> {
    let width = |text: fn(&ConfiguredServer) -> usize| report.servers.iter().map(text).max().unwrap_or(0);
    let names = width(|server| server.name.chars().count());
    let models = width(|server| model_of(server).chars().count()).min(40);
    for server in &report.servers {
        let mark = if server.enabled { '*' } else { ' ' };
        let (name, model) = (&server.name, model_of(server));
        let rest = match &server.problem {
            Some(problem) => &problem.message,
            None => server.url.as_deref().unwrap_or(""),
        };
        output.line(format!("{mark} {name:names$}  {model:models$}  {rest}").trim_end())?;
    }
    if let Some(models) = &report.models {
        output.line("")?;
        if models.is_empty() {
            output.line("The enabled server lists no models.")?;
        }
        for model in models {
            output.line(&describe_model(model))?;
        }
    }
    if let Some(problem) = &report.problem {
        output.problem(problem);
    }
    Ok(())
}

fn model_of(server: &ConfiguredServer) -> &str {
    server.model.as_deref().unwrap_or("no model")
}

/// A model on one line: identifier, context size, price of a million tokens.
pub(super) fn describe_model(model: &ListedModel) -> String {
    let mut line = model.id.clone();
    let mut more = Vec::new();
    if let Some(tokens) = model.context_tokens {
        more.push(format!("{tokens} tokens"));
    }
    if let (Some(input), Some(output)) = (model.input_price, model.output_price) {
        more.push(format!("${input:.2} in, ${output:.2} out a million"));
    }
    if !more.is_empty() {
        line = format!("{line}  ({})", more.join(", "));
    }
    line
}

/// The server with this name, in the form that `init` writes.
pub(super) fn server_named(name: &str) -> Result<ProviderChoice, Error> {
    let init = match name {
        "analyst" => ProviderChoice::offline(),
        "hosted" => ProviderChoice::for_provider(ProviderName::Hosted),
        "local" => ProviderChoice::for_provider(ProviderName::Local),
        "router" => ProviderChoice::for_provider(ProviderName::Router),
        _ => match Preset::find_by_name(name) {
            Some(preset) => ProviderChoice::of_vendor(preset.provider, name),
            None if tool_config::is_vendor_name(name) => ProviderChoice::of_vendor(ProviderName::Hosted, name),
            None => {
                let message = format!("`{name}` cannot be the name of a vendor");
                return Err(Problem::new(ErrorKind::Usage, message)
                    .with_hint(tool_config::suggest_vendor(name))
                    .into());
            }
        },
    };
    Ok(init)
}

fn switch_model(name: &str, model: Option<String>, context: &CommandContext) -> Result<ExitCode, Error> {
    let (home, environment) = (&context.backend.home, &context.backend.environment);
    let init = ProviderChoice {
        model,
        keeps_url: name != "analyst",
        ..server_named(name)?
    };
    // Settings that cannot work are not written.
    let settings = tool_config::preview_provider(home, environment, &init)?;
    let written = tool_config::write_initial(home, &init)?;
    if !context.output.is_quiet() {
        context.output.line(&format!(
            "Wrote {}: {} is enabled, with the model {}.",
            written.place.display(),
            settings.display_name(),
            settings.model
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}
