//! `tool skill update`: installs the current component from the source of a skill.

use std::process::ExitCode;

use tool_core::api::{ErrorKind, Problem};
use tool_skill::{PinnedSkill, SkillHost};

use super::offer::ComponentOffer;
use super::{explain_refusal, open_registry};
use crate::args::Consent;
use crate::commands::CommandContext;
use crate::error::{Error, FAILED};

/// Updates one skill, possibly from another source than before.
pub(super) async fn update_one(
    name: &str,
    from: Option<&str>,
    consent: &Consent,
    context: &CommandContext,
) -> Result<ExitCode, Error> {
    let registry = open_registry(context)?;
    let Some(pinned) = registry.pinned().map_err(explain_refusal)?.remove(name) else {
        return Err(
            Problem::new(ErrorKind::NotFound, format!("There is no pinned skill named `{name}`"))
                .with_hint("`tool skill list` shows the skills, `tool skill add` adds one")
                .into(),
        );
    };
    let known = pinned.origin.as_ref().map(|origin| origin.from.clone());
    let Some(source) = from.map(str::to_owned).or(known) else {
        return Err(
            Problem::new(ErrorKind::Skill, format!("The source of `{name}` is not known"))
                .with_hint("name the file or the place: --from SOURCE")
                .into(),
        );
    };
    install_update(&pinned, &source, &registry, consent, context).await?;
    Ok(ExitCode::SUCCESS)
}

/// Updates every skill with a known source. A failure does not stop the others.
pub(super) async fn update_all(consent: &Consent, context: &CommandContext) -> Result<ExitCode, Error> {
    let registry = open_registry(context)?;
    let mut has_failed = false;
    for (name, pinned) in registry.pinned().map_err(explain_refusal)? {
        let Some(origin) = &pinned.origin else {
            context
                .output
                .notice(&format!("The source of `{name}` is not known."), None);
            continue;
        };
        match install_update(&pinned, &origin.from, &registry, consent, context).await {
            Err(Error::Problem(problem)) => {
                has_failed = true;
                let message = format!("{name}: {}", problem.message);
                context.output.problem(&Problem { message, ..problem });
            }
            updated => updated?,
        }
    }
    Ok(if has_failed {
        ExitCode::from(FAILED)
    } else {
        ExitCode::SUCCESS
    })
}

async fn install_update(
    pinned: &PinnedSkill,
    source: &str,
    registry: &SkillHost,
    consent: &Consent,
    context: &CommandContext,
) -> Result<(), Error> {
    let name = &pinned.name;
    let offer = ComponentOffer::look_up(source, registry, consent, context).await?;
    if offer.inspection.name != *name {
        let message = format!("`{source}` holds `{}`, not `{name}`", offer.inspection.name);
        return Err(Error::new(ErrorKind::Skill, message));
    }
    let is_same = offer.inspection.digest == pinned.digest;
    let entry = offer.settle(registry, consent, context)?;
    context.output.line(&if is_same {
        format!("{name} {} is what is there.", entry.version)
    } else {
        format!("Updated {name} from {} to {}.", pinned.version, entry.version)
    })
}
