//! The way of a component from its source to its pin: it is fetched, shown and confirmed.
//!
//! Everything that pins a component uses this module. So nothing is pinned without being shown, and no new effect is
//! granted without the user's agreement.

use std::path::Path;

use serde_json::Value;
use tool_config::SkillsSettings;
use tool_core::api::Effect;
use tool_core::api::{ErrorKind, Problem, SkillEntry};
use tool_registry::oci::{self, RegistryReference};
use tool_skill::signature::{Identities, Signature, SignatureError};
use tool_skill::{ComponentOrigin, FunctionDescriptor, Inspection, PinTerms, PulledCopy, SkillHost, VersionChange};

use super::{explain_refusal, in_its_words};
use crate::args::Consent;
use crate::commands::{CommandContext, read_yes};
use crate::error::Error;
use crate::output::CommandOutput;

pub(super) struct ComponentOffer {
    pub(super) inspection: Inspection,
    origin: Option<ComponentOrigin>,
    signer: ComponentSigner,
    /// It gets at most these.
    within: Option<Vec<Effect>>,
    /// True if a repository's lock file requests it.
    is_for_lock: bool,
    /// True if it is in the team's folder already.
    is_installed: bool,
    _held: Option<PulledCopy>,
}

enum ComponentSigner {
    None,
    /// No valid signature, with the reason.
    Unknown(String),
    Known(String),
}

impl ComponentOffer {
    /// Inspects a file, or a component in a registry.
    pub(super) async fn look_up(
        source: &str,
        registry: &SkillHost,
        consent: &Consent,
        context: &CommandContext,
    ) -> Result<Self, Error> {
        if RegistryReference::is_meant(source) {
            Self::of_place(source, registry, consent, context).await
        } else {
            Self::of_file(Path::new(source), registry, consent, context)
        }
    }

    fn of_file(file: &Path, registry: &SkillHost, consent: &Consent, context: &CommandContext) -> Result<Self, Error> {
        let inspection = registry.inspect(file).map_err(explain_refusal)?;
        let absolute = std::path::absolute(file).map_err(|error| Error::on_file("Component", file, &error))?;
        let from = super::path_text(&absolute)?;
        Ok(Self {
            origin: Some(ComponentOrigin { from, manifest: None }),
            ..Self::with_signature_beside(inspection, consent, context)?
        })
    }

    /// Inspects a skill in the team's folder, in the version with this digest if one is given.
    pub(super) fn of_installed(
        name: &str,
        digest: Option<&str>,
        registry: &SkillHost,
        consent: &Consent,
        context: &CommandContext,
    ) -> Result<Self, Error> {
        let inspection = registry.inspect_installed(name, digest).map_err(explain_refusal)?;
        Ok(Self {
            is_installed: true,
            ..Self::with_signature_beside(inspection, consent, context)?
        })
    }

    fn with_signature_beside(
        inspection: Inspection,
        consent: &Consent,
        context: &CommandContext,
    ) -> Result<Self, Error> {
        let wanted = SignaturePolicy::new(consent, context)?;
        let signatures = match Signature::read_beside(&inspection.path) {
            Ok(signature) => signature.into_iter().collect(),
            Err(error) if wanted.looks() => return Err(explain_refusal(error)),
            Err(_) => Vec::new(),
        };
        Self::check_signer(inspection, &signatures, &wanted)
    }

    /// An offer without an origin, with its signer.
    fn check_signer(inspection: Inspection, signatures: &[Signature], wanted: &SignaturePolicy) -> Result<Self, Error> {
        Ok(Self {
            signer: wanted.signer(&inspection, signatures)?,
            inspection,
            origin: None,
            within: None,
            is_for_lock: false,
            is_installed: false,
            _held: None,
        })
    }

    async fn of_place(
        source: &str,
        registry: &SkillHost,
        consent: &Consent,
        context: &CommandContext,
    ) -> Result<Self, Error> {
        let place: RegistryReference = source
            .parse()
            .map_err(|error: oci::PlaceError| Error::new(ErrorKind::Usage, error.to_string()))?;
        context.output.progress(&format!("pulling {place}"));
        let environment = &context.backend.environment;
        let pulled = oci::pull_component(&place, environment)
            .await
            .map_err(explain_refusal)?;
        let held = registry.hold(&pulled.component).map_err(explain_refusal)?;
        let inspection = registry
            .inspect(held.path())
            .map_err(|error| of_place(&place, &error))?;
        let wanted = SignaturePolicy::new(consent, context)?;
        let signatures = if wanted.looks() {
            let found = oci::pull_signatures(&place, &inspection.digest, environment).await;
            found.map_err(explain_refusal)?
        } else {
            Vec::new()
        };
        // The valid signature is stored with the component, so that it can be checked again.
        if let Some(signature) = wanted.counting(&inspection.name, &inspection.digest, &signatures) {
            signature.write_beside(held.path()).map_err(explain_refusal)?;
        }
        Ok(Self {
            origin: Some(ComponentOrigin {
                from: place.followed().to_string(),
                manifest: Some(pulled.manifest),
            }),
            _held: Some(held),
            ..Self::check_signer(inspection, &signatures, &wanted)?
        })
    }

    pub(super) fn within(self, effects: impl IntoIterator<Item = Effect>) -> Self {
        Self {
            within: Some(effects.into_iter().collect()),
            ..self
        }
    }

    /// Pins it only for a repository whose lock file names it.
    pub(super) fn for_lock(self) -> Self {
        Self {
            is_for_lock: true,
            ..self
        }
    }

    /// Shows it, asks if necessary, and pins it.
    pub(super) fn settle(
        self,
        registry: &SkillHost,
        consent: &Consent,
        context: &CommandContext,
    ) -> Result<SkillEntry, Error> {
        let mut change = registry.change(&self.inspection).map_err(explain_refusal)?;
        if let (Some(change), Some(within)) = (&mut change, &self.within) {
            change.grown.retain(|effect| within.contains(effect));
        }
        self.show(change.as_ref(), context.output);
        let grown = self.confirm(change.as_ref(), consent, context.output)?;
        // With `--yes` the user agrees before seeing the component, so effects beyond reading must be named.
        let is_blind = consent.yes && change.is_none() && self.within.is_none();
        let within = if is_blind {
            Some([&[Effect::ReadRepository], &grown[..]].concat())
        } else {
            self.within.clone()
        };
        let terms = PinTerms {
            origin: self.origin.clone(),
            grown,
            within,
            is_for_lock: self.is_for_lock,
        };
        let entry = if self.is_installed {
            registry.trust_on(&self.inspection, &terms)
        } else {
            registry.add_on(&self.inspection, &terms)
        };
        if is_blind && entry.is_ok() {
            self.show_granted(terms.within.as_deref().unwrap_or_default(), context.output);
        }
        entry.map_err(explain_refusal)
    }

    /// Prints what `--yes` has granted, and how to grant the rest.
    fn show_granted(&self, granted: &[Effect], output: CommandOutput) {
        let (given, withheld): (Vec<Effect>, Vec<Effect>) = self
            .inspection
            .effects
            .iter()
            .partition(|effect| granted.contains(effect));
        let list = |effects: &[Effect]| match effects {
            [] => "none".to_owned(),
            effects => effects.iter().map(Effect::to_string).collect::<Vec<_>>().join(","),
        };
        let mut text = format!("  granted  {}\n", list(&given));
        if !withheld.is_empty() {
            let withheld = list(&withheld);
            text.push_str(&format!(
                "  withheld {withheld}: --yes alone grants read-repository; to grant the rest, add --allow-effects {withheld}\n"
            ));
        }
        output.ask(&text);
    }

    fn show(&self, change: Option<&VersionChange>, output: CommandOutput) {
        let shown = &self.inspection;
        let mut lines = vec![
            format!("{} {}", shown.name, shown.version),
            in_its_words(&shown.description, output.columns()),
            format!("  effects  {}", self.effects(&shown.effects, change)),
            format!("  digest   {}", shown.digest),
            format!("  size     {} bytes", shown.size),
        ];
        for function in &shown.functions {
            lines.extend(self.function_lines(function, output.columns()));
        }
        if let Some(origin) = &self.origin {
            let manifest = origin
                .manifest
                .as_deref()
                .map_or_else(String::new, |digest| format!(" ({digest})"));
            lines.push(format!("  from     {}{manifest}", origin.from));
        }
        match &self.signer {
            ComponentSigner::Known(identity) => lines.push(format!("  signed   by {identity}")),
            ComponentSigner::Unknown(why) => lines.push(format!("  signed   {why}")),
            ComponentSigner::None => {}
        }
        if let Some(change) = change {
            lines.extend(self.differences(change));
        }
        output.ask(&format!("{}\n", lines.join("\n")));
    }

    /// Lines about a function. A model reads its description and those of its parameters, so the user sees both.
    fn function_lines(&self, function: &FunctionDescriptor, columns: Option<usize>) -> Vec<String> {
        let mut lines = vec![format!(
            "  function {} ({})",
            function.name,
            self.effects(&function.effects, None)
        )];
        if function.description != self.inspection.description {
            lines.push(in_its_words(&function.description, columns));
        }
        let parameters = function.parameters.get("properties").and_then(Value::as_object);
        for (name, parameter) in parameters.into_iter().flatten() {
            let description = parameter.get("description").and_then(Value::as_str).unwrap_or_default();
            let words = format!("{name}: {description}");
            lines.push(in_its_words(words.trim_end_matches([':', ' ']), columns));
        }
        lines
    }

    fn effects(&self, asked: &[Effect], change: Option<&VersionChange>) -> String {
        let is_granted = |effect: &&Effect| self.within.as_ref().is_none_or(|within| within.contains(*effect));
        let grown = change.map_or(&[][..], |change| &change.grown);
        let shown = asked.iter().filter(is_granted).map(|effect| {
            if grown.contains(effect) {
                format!("{effect} (new)")
            } else {
                effect.to_string()
            }
        });
        let shown: Vec<String> = shown.collect();
        if shown.is_empty() {
            "none".to_owned()
        } else {
            shown.join(", ")
        }
    }

    /// Lines about differences from the previous pin.
    fn differences(&self, change: &VersionChange) -> Vec<String> {
        let mut lines = Vec::new();
        if change.digest != self.inspection.digest {
            let same = if change.version == self.inspection.version {
                ", under the same version"
            } else {
                ""
            };
            let digest = change.digest.get(..12).unwrap_or(&change.digest);
            lines.push(format!("  before   {}, digest {digest}{same}", change.version));
        }
        if !change.dropped.is_empty() {
            lines.push(format!("  dropped  {}", Effect::join_names(&change.dropped)));
        }
        if let Some((before, now)) = self.moved(change) {
            lines.push(format!("  moved    the tag meant {before}, and means {now}"));
        }
        lines
    }

    /// The old and the new manifest digest if a tag has moved.
    fn moved(&self, change: &VersionChange) -> Option<(String, String)> {
        let (before, now) = (change.origin.as_ref()?, self.origin.as_ref()?);
        let (old, new) = (before.manifest.clone()?, now.manifest.clone()?);
        (before.from == now.from && old != new).then_some((old, new))
    }

    /// Asks about new effects. Returns those that the user has agreed to.
    fn confirm(
        &self,
        change: Option<&VersionChange>,
        consent: &Consent,
        output: CommandOutput,
    ) -> Result<Vec<Effect>, Error> {
        let named: Vec<Effect> = consent
            .allow_effects
            .iter()
            .map(|name| name.trim().parse().map_err(Error::Problem))
            .collect::<Result<_, _>>()?;
        let grown = change.map_or(&[][..], |change| &change.grown);
        let open: Vec<Effect> = grown.iter().copied().filter(|effect| !named.contains(effect)).collect();
        let is_known = change.is_some_and(|change| change.digest == self.inspection.digest);
        if open.is_empty() && (consent.yes || is_known && grown.is_empty()) {
            return Ok(named);
        }
        let refusal =
            |hint: String| Error::from(Problem::new(ErrorKind::Declined, "Nothing was pinned").with_hint(hint));
        if !CommandOutput::can_ask() {
            return Err(refusal(if open.is_empty() {
                "there is no terminal to ask on: add --yes after reading the above".to_owned()
            } else {
                format!(
                    "it asks for more than before, and there is no terminal to ask on: add --allow-effects {} after reading \
                     the above",
                    open.iter().map(Effect::to_string).collect::<Vec<_>>().join(",")
                )
            }));
        }
        output.ask(&if open.is_empty() {
            "Allow it these effects? [y/N] ".to_owned()
        } else {
            format!(
                "It asks for more than before: {}. Allow it these effects? [y/N] ",
                Effect::join_names(&open)
            )
        });
        if read_yes() {
            Ok(grown.to_vec())
        } else {
            Err(refusal("the component got nothing new".to_owned()))
        }
    }
}

/// Searches the origin of a pinned component for a valid signature. True if there is one now.
pub(super) async fn fetch_signature(
    entry: &SkillEntry,
    source: &str,
    registry: &SkillHost,
    context: &CommandContext,
) -> Result<bool, Error> {
    let place: RegistryReference = source
        .parse()
        .map_err(|error: oci::PlaceError| Error::new(ErrorKind::Usage, error.to_string()))?;
    let wanted = SignaturePolicy::of_configuration(context)?;
    let found = oci::pull_signatures(&place, &entry.digest, &context.backend.environment).await;
    let found = found.map_err(explain_refusal)?;
    let Some(signature) = wanted.counting(&entry.name, &entry.digest, &found) else {
        return Ok(false);
    };
    registry
        .write_signature(&entry.name, &entry.digest, signature)
        .map_err(explain_refusal)?;
    Ok(true)
}

/// A pulled component has no path that the user knows.
fn of_place(place: &RegistryReference, error: &tool_skill::SkillHostError) -> Error {
    match error {
        tool_skill::SkillHostError::Refused { reason, .. } => {
            Error::new(ErrorKind::Skill, format!("`{place}` is refused: {reason}"))
        }
        error => Error::new(ErrorKind::Skill, error.to_string()),
    }
}

/// Whether a signature is required, and whose signatures are valid.
struct SignaturePolicy {
    is_required: bool,
    identities: Identities,
}

impl SignaturePolicy {
    fn new(consent: &Consent, context: &CommandContext) -> Result<Self, Error> {
        let wanted = Self::of_configuration(context)?;
        Ok(Self {
            is_required: wanted.is_required || consent.require_signature,
            ..wanted
        })
    }

    fn of_configuration(context: &CommandContext) -> Result<Self, Error> {
        let SkillsSettings {
            require_signature,
            identities,
            ..
        } = tool_config::load_common(&context.backend.home, &context.backend.environment)?.skills;
        Ok(Self {
            is_required: require_signature,
            identities: Identities::read_keys(&identities, &context.backend.home)
                .map_err(|error| invalid_identity(&error))?,
        })
    }

    /// True if the signer matters.
    fn looks(&self) -> bool {
        self.is_required || !self.identities.is_empty()
    }

    /// The valid signature of a component with this digest.
    fn counting<'s>(&self, name: &str, digest: &str, signatures: &'s [Signature]) -> Option<&'s Signature> {
        let counts = |signature: &&Signature| {
            let one = std::slice::from_ref(*signature);
            self.identities.check(name, digest, one).is_ok()
        };
        signatures.iter().find(counts)
    }

    /// Finds the signer of a component. Without a required signature, an unknown signer is accepted.
    fn signer(&self, inspection: &Inspection, signatures: &[Signature]) -> Result<ComponentSigner, Error> {
        let checked = self.identities.check(&inspection.name, &inspection.digest, signatures);
        match checked {
            Ok(identity) => Ok(ComponentSigner::Known(identity)),
            Err(error) if self.is_required => Err(Problem::new(ErrorKind::Signature, error.to_string())
                .with_hint("nothing was pinned; `tool skill sign` signs, and [skills.identities] of config.toml says whose signature counts")
                .into()),
            Err(_) if signatures.is_empty() => Ok(ComponentSigner::None),
            Err(error @ SignatureError::OtherDigest { .. }) => Ok(ComponentSigner::Unknown(error.to_string())),
            Err(_) => Ok(ComponentSigner::Unknown(format!("by {}", super::UNKNOWN_SIGNER))),
        }
    }
}

/// The problem of an invalid identity.
pub(super) fn invalid_identity(error: &SignatureError) -> Problem {
    let hint = "mend `[skills.identities]` of config.toml";
    let cause = std::error::Error::source(error).map_or_else(String::new, |cause| format!("{cause}; "));
    Problem::new(ErrorKind::ConfigInvalid, error.to_string()).with_hint(format!("{cause}{hint}"))
}
