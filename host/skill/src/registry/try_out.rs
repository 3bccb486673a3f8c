//! A component that the user tries out before adding it.

use std::path::Path;
use std::sync::Arc;

use super::team::Inspection;
use super::{LoadedSkill, SkillHost, SkillSource, is_name, nothing_ran};
use crate::{CallContext, CallError, CallReport, Descriptor, RawArguments, SkillHostError};
use tool_core::text::{clean_text, nearest_name};

/// A component that was checked, compiled and described, but is in no list of skills.
pub struct TrialSkill {
    skill: Arc<LoadedSkill>,
    inspection: Inspection,
}

impl TrialSkill {
    /// Description and declared effects of the component.
    pub fn inspection(&self) -> &Inspection {
        &self.inspection
    }
}

impl std::fmt::Debug for TrialSkill {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inspection.fmt(formatter)
    }
}

impl SkillHost {
    /// Loads a component for trying it out, under the rules of [`Self::add`]. Pins nothing.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or the component breaks a rule.
    pub fn trial(&self, file: &Path) -> Result<TrialSkill, SkillHostError> {
        let inspection = self.inspect(file)?;
        let descriptor = Descriptor {
            name: inspection.name.clone(),
            version: inspection.version.clone(),
            description: inspection.description.clone(),
            functions: inspection.functions.clone(),
            metadata: inspection.metadata.clone(),
        };
        let granted = descriptor.functions.iter().map(|function| function.effects.clone());
        let (granted, source) = (granted.collect(), SkillSource::Team(file.to_owned()));
        Ok(TrialSkill {
            skill: LoadedSkill::new(descriptor, granted, inspection.digest.clone(), source),
            inspection,
        })
    }

    /// Calls a function of a component that is tried out, as [`Self::call`] does for skills. Blocks.
    pub fn try_out(
        &self,
        context: &Arc<CallContext>,
        trial: &TrialSkill,
        function: &str,
        arguments: RawArguments<'_>,
    ) -> CallReport {
        match trial.skill.function(function) {
            Some(function) => self.call_function(context, function, &arguments),
            None => nothing_ran(CallError::Unknown {
                name: clean_text(function).into_owned(),
                nearest: nearest_name(
                    function,
                    trial.inspection.functions.iter().map(|known| known.name.as_str()),
                )
                .map(str::to_owned),
            }),
        }
    }

    /// Checks the name for a new skill.
    ///
    /// # Errors
    ///
    /// The reason why the name is not possible, as the end of a sentence.
    pub fn check_new_name(&self, name: &str) -> Result<(), String> {
        match (is_name(name), self.is_reserved(name)) {
            (false, _) => Err(
                "is not a name of a skill: it begins with a lower-case letter, goes on with lower-case \
                               letters, digits and `_`, and has at most 64 of them"
                    .to_owned(),
            ),
            (_, true) => Err("is the name of a built-in tool".to_owned()),
            _ => Ok(()),
        }
    }
}
