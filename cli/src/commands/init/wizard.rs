//! The questions of `tool init` on a terminal: vendor, key, model, one tiny request. The file is written last.

use std::process::ExitCode;

use tool_config::{PRESETS, Preset, ProviderChoice, ProviderSettings, Secret};
use tool_core::api::{ErrorKind, Problem, ProviderName};
use tool_provider::ListedModel;

use super::super::models::{describe_model, server_named};
use super::super::{CommandContext, is_yes, provider_options, wait_for_answer};
use super::prompt::{ask_key, ask_line, ask_nonempty_line};
use crate::error::Error;

/// Models that are shown before the user types a part of a name.
const MODELS_SHOWN: usize = 10;

/// Number of times that a refused key may be typed again.
const KEY_TRIES_MAX: usize = 3;

/// Asks, tests the answers, and writes the file.
pub(super) async fn run_wizard(context: &CommandContext) -> Result<(), Error> {
    let findings = FoundVendors::find_vendors(context).await;
    let mut init = choose_vendor(&findings, context)?;
    if init == ProviderChoice::offline() {
        return write_config(&init, context);
    }
    ask_missing_parts(&mut init, context)?;
    let models = connect_server(&mut init, context).await?;
    init.model = Some(choose_model(&models, context)?);
    try_model(&init, context).await?;
    offer_larger_context(&mut init, context).await?;
    write_config(&init, context)
}

/// A usable vendor, and how it was found.
struct FoundVendor {
    preset: &'static Preset,
    sign: String,
}

/// Vendors that were found in the environment and on this machine.
struct FoundVendors(Vec<FoundVendor>);

impl FoundVendors {
    /// Looks for keys in the environment and for servers on the usual ports, which are asked without a key.
    async fn find_vendors(context: &CommandContext) -> Self {
        let environment = &context.backend.environment;
        let all = PRESETS.iter().filter_map(|preset| Preset::find_by_name(preset.name));
        let with_key = all.clone().filter_map(|preset| {
            let variable = preset
                .variables()
                .find(|variable| environment.get(variable).is_some())?;
            Some(FoundVendor {
                preset,
                sign: format!("key in {variable}"),
            })
        });
        // The key of a local server does not show whether the server runs.
        let mut found: Vec<FoundVendor> = with_key.filter(|found| found.preset.needs_key).collect();
        let own = context.backend.running().ok().flatten().map(|record| record.port);
        for preset in all.filter(|preset| !preset.needs_key) {
            let port = port_of(preset.url);
            if port.is_none() || port == own {
                continue;
            }
            let settings = ProviderSettings::new(preset.provider, preset.api, preset.url, "");
            if let Some(models) = tool_provider::find_local_server(&settings).await {
                let port = port.unwrap_or_default();
                let sign = match models.len() {
                    1 => format!("runs on port {port}, 1 model"),
                    count => format!("runs on port {port}, {count} models"),
                };
                found.push(FoundVendor { preset, sign });
            }
        }
        Self(found)
    }
}

fn port_of(url: &str) -> Option<u16> {
    let authority = url.split_once("://")?.1.split('/').next()?;
    authority.rsplit_once(':')?.1.parse().ok()
}

fn choose_vendor(findings: &FoundVendors, context: &CommandContext) -> Result<ProviderChoice, Error> {
    let output = context.output;
    let found = |name: &str| findings.0.iter().any(|found| found.preset.name == name);
    let mut choices: Vec<(&str, String)> = findings
        .0
        .iter()
        .map(|found| (found.preset.name, format!("{}: {}", found.preset.title, found.sign)))
        .collect();
    choices.push((
        "analyst",
        "no model, no key, no network: a deterministic overview".to_owned(),
    ));
    for preset in PRESETS.iter().filter(|preset| !found(preset.name)) {
        choices.push((preset.name, preset.title.to_owned()));
    }
    let mut question = "Which vendor?\n".to_owned();
    for (number, (name, words)) in (1..).zip(&choices) {
        question.push_str(&format!("  {number:2}  {name:11}  {words}\n"));
    }
    output.ask(&question);
    loop {
        let answer = ask_line(&format!("Number or name [{}]: ", choices[0].0), output)?;
        let chosen = match answer.parse::<usize>() {
            _ if answer.is_empty() => Some(choices[0].0),
            Ok(number) => number
                .checked_sub(1)
                .and_then(|index| choices.get(index))
                .map(|(name, _)| *name),
            Err(_) => choices.iter().map(|(name, _)| *name).find(|name| *name == answer),
        };
        match chosen {
            Some(name) => return server_named(name),
            None => output.ask(&format!(
                "There is no `{answer}`; {}\n",
                tool_config::suggest_vendor(&answer)
            )),
        }
    }
}

/// Asks for settings that the vendor's URL needs and the file lacks.
fn ask_missing_parts(init: &mut ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    let Some(preset) = init.vendor.as_deref().and_then(Preset::find_by_name) else {
        return Ok(());
    };
    for part in preset.parts() {
        let key = format!("vendors.{}.{part}", preset.name);
        let inspection = tool_config::inspect_config(&context.backend.home, &context.backend.environment);
        let is_set = inspection.settings.iter().any(|setting| setting.key == key);
        if !is_set {
            let value = ask_nonempty_line(&format!("{}, {part}: ", preset.title), context.output)?;
            init.url_parts.insert(part, value);
        }
    }
    Ok(())
}

/// The settings after the choice so far, with a placeholder for the model.
fn preview_settings(init: &ProviderChoice, context: &CommandContext) -> Result<ProviderSettings, Problem> {
    let with_model = ProviderChoice {
        model: init.model.clone().or_else(|| Some("none-yet".to_owned())),
        ..init.clone()
    };
    tool_config::preview_provider(&context.backend.home, &context.backend.environment, &with_model)
}

/// Asks for the key if it is missing or the server refuses it, and fetches the server's models.
async fn connect_server(init: &mut ProviderChoice, context: &CommandContext) -> Result<Vec<ListedModel>, Error> {
    let output = context.output;
    for _ in 0..KEY_TRIES_MAX {
        let settings = match preview_settings(init, context) {
            Ok(settings) => settings,
            Err(problem) if problem.kind == ErrorKind::ConfigKeyMissing => {
                ask_for_key(init, context)?;
                continue;
            }
            Err(problem) => return Err(problem.into()),
        };
        let what = format!("asking {} for its models", settings.display_name());
        let options = provider_options(context);
        match wait_for_answer(what, tool_provider::describe_models(&settings, &options), output).await {
            Ok(models) => return Ok(models),
            Err(problem) if problem.kind == ErrorKind::AuthenticationFailed => {
                output.problem(&problem);
                ask_for_key(init, context)?;
            }
            // A server that does not respond has no model either.
            Err(problem) if settings.vendor.is_none() || is_unreachable(&problem) => return Err(problem.into()),
            Err(problem) => {
                output.notice(
                    &format!("The list of models is not available: {}", problem.message),
                    None,
                );
                return Ok(Vec::new());
            }
        }
    }
    // The last key was not tried yet; the next request decides.
    preview_settings(init, context)?;
    Ok(Vec::new())
}

fn is_unreachable(problem: &Problem) -> bool {
    matches!(
        problem.kind,
        ErrorKind::ConnectionRefused | ErrorKind::ProviderUnreachable | ErrorKind::ProviderOtherUser
    )
}

fn ask_for_key(init: &mut ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    let place = tool_config::config_path(&context.backend.home);
    let question = format!(
        "API key (not shown; kept in {}, readable by you alone): ",
        place.display()
    );
    let key = ask_key(&question, context.output)?;
    if key.is_empty() {
        return Err(Error::new(
            ErrorKind::ConfigKeyMissing,
            "No key was given; nothing was written",
        ));
    }
    init.api_key = Some(Secret::new(key));
    Ok(())
}

fn choose_model(models: &[ListedModel], context: &CommandContext) -> Result<String, Error> {
    let output = context.output;
    let Some(first) = models.first() else {
        return ask_nonempty_line("Model: ", output);
    };
    let mut shown: Vec<&ListedModel> = models.iter().take(MODELS_SHOWN).collect();
    show_models(&shown, models.len(), context);
    loop {
        let answer = ask_line(&format!("Number, name or part of a name [{}]: ", first.id), output)?;
        if answer.is_empty() {
            return Ok(first.id.clone());
        }
        if let Some(model) = answer
            .parse::<usize>()
            .ok()
            .and_then(|number| shown.get(number.checked_sub(1)?))
        {
            return Ok(model.id.clone());
        }
        if models.iter().any(|model| model.id == answer) {
            return Ok(answer);
        }
        let matching: Vec<&ListedModel> = models.iter().filter(|model| model.id.contains(&answer)).collect();
        match matching[..] {
            [] => output.ask(&format!("No model has `{answer}` in its name.\n")),
            [only] => return Ok(only.id.clone()),
            _ => {
                shown = matching.iter().copied().take(MODELS_SHOWN).collect();
                show_models(&shown, matching.len(), context);
            }
        }
    }
}

fn show_models(shown: &[&ListedModel], count: usize, context: &CommandContext) {
    let mut list = "Which model?\n".to_owned();
    for (number, model) in (1..).zip(shown) {
        list.push_str(&format!("  {number:2}  {}\n", describe_model(model)));
    }
    if count > shown.len() {
        list.push_str(&format!("      and {} more\n", count - shown.len()));
    }
    context.output.ask(&list);
}

/// Sends one tiny request. If it fails, the user may keep the settings.
async fn try_model(init: &ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    let settings = preview_settings(init, context)?;
    let options = provider_options(context);
    let what = format!("sending one tiny request to {}", settings.model);
    match wait_for_answer(what, tool_provider::try_out(&settings, &options), context.output).await {
        Ok(()) => {
            context.output.progress(&format!("{} answers.", settings.model));
            Ok(())
        }
        Err(problem) => {
            context.output.problem(&problem);
            let answer = ask_line("Write these settings anyway? [y/N] ", context.output)?;
            if is_yes(&answer) {
                Ok(())
            } else {
                Err(Error::new(ErrorKind::Usage, "Nothing was written"))
            }
        }
    }
}

/// Prints the context size of a local model, and offers to create a model with a larger one if the server can.
async fn offer_larger_context(init: &mut ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    let (mut settings, options) = (preview_settings(init, context)?, provider_options(context));
    if settings.name != ProviderName::Local {
        return Ok(());
    }
    let Some(mut tokens) = find_context(&settings, context).await else {
        return Ok(());
    };
    if let Some(larger) = tool_provider::find_larger_model(&settings, &options, tokens).await {
        let (model, name) = (&settings.model, &larger.name);
        let offer = if larger.is_there {
            format!("The server already has a model named {name}. Use it as it is?")
        } else {
            let tokens = larger.tokens;
            format!("Create {name} from it, with {tokens} tokens? It shares the weights and needs more memory.")
        };
        let question = format!("{model} has a context of {tokens} tokens here. {offer} [y/N] ");
        if is_yes(&ask_line(&question, context.output)?) {
            tool_provider::create_larger_model(&settings, &options, &larger).await?;
            init.model = Some(larger.name);
            settings = preview_settings(init, context)?;
            let Some(changed) = find_context(&settings, context).await else {
                return Ok(());
            };
            tokens = changed;
        }
    }
    context.output.progress(&format!(
        "{} is used with a context of {tokens} tokens.",
        settings.model
    ));
    Ok(())
}

/// Requests the context size of the configured model. The server loads the model to answer.
async fn find_context(settings: &ProviderSettings, context: &CommandContext) -> Option<u64> {
    let provider = tool_provider::connect_with(settings, &provider_options(context)).ok()?;
    let what = format!("asking for the context of {}", settings.model);
    wait_for_answer(what, provider.context_tokens(), context.output).await
}

fn write_config(init: &ProviderChoice, context: &CommandContext) -> Result<(), Error> {
    let written = tool_config::write_initial(&context.backend.home, init)?;
    super::say_written(&written, init, context)
}

/// Prints a next command for a user who has just set up.
pub(super) fn say_next(context: &CommandContext) -> ExitCode {
    if !context.output.is_quiet() {
        context.output.progress("Next: tool explain .");
    }
    ExitCode::SUCCESS
}
