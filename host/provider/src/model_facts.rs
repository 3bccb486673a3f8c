//! Facts about a model, learned from its refusals and answers. Later requests are adapted to them.
//!
//! An option that a model refuses is replaced by the nearest one that it may accept, and finally left out. The facts
//! are stored in the home for each model and address, so that the next session is not refused again.

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::failure::{ProviderFailure, RefusedOption};
use tool_config::{Effort, Reasoning, RequestOptions};

/// Days for which a learned fact is valid: vendors change what their models accept.
const LEARNED_DAYS: i64 = 30;

/// Most models that are stored. A user works with about a dozen.
const LEARNED_MODELS_MAX: usize = 200;

const NO_TEMPERATURE: &str = "The model takes no `temperature`: it was left out.";
const OTHER_REASONING: &str = "The model does not take this `reasoning_effort` or `thinking_budget`: it was asked for the \
    nearest effort.";
const NO_REASONING: &str = "The model takes no `reasoning_effort` and no `thinking_budget`: they were left out.";

/// A change of the requests after a refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Adaptation {
    /// The answer does not get worse because of the change.
    Silent,
    /// The user should be told, with this sentence.
    Announced(&'static str),
}

impl Adaptation {
    /// [`Self::Silent`] if something was changed.
    pub(super) fn silent_if(is_changed: bool) -> Option<Self> {
        is_changed.then_some(Self::Silent)
    }
}

/// The options of a model's requests, with the learned facts.
#[derive(Debug, Default)]
pub(super) struct LearnedOptions {
    options: RequestOptions,
    facts: Mutex<ModelFacts>,
    /// True if an answer has confirmed facts that are not on the disk yet.
    is_new: AtomicBool,
}

/// The learned facts, as they are stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct ModelFacts {
    /// Time until which the facts are valid, in seconds since 1970.
    until: i64,
    no_temperature: bool,
    /// Number of times that the option for reasoning was replaced by [`nearest_reasoning`].
    reasoning_steps: u8,
    /// Tokens of the context, from an error or a vendor's list of models; 0 if neither has named them.
    context_tokens: u64,
    /// The server's list of models has no size for the model.
    pub(super) has_no_listed_context: bool,
    /// The server has refused to show thinking.
    pub(super) hides_thinking: bool,
    /// The server has refused a key for its cache.
    pub(super) no_cache_key: bool,
    /// The model has thought without being asked.
    pub(super) thinks: bool,
    /// The server has refused a conversation because the reasoning of an earlier answer was missing.
    pub(super) wants_reasoning: bool,
}

impl LearnedOptions {
    pub(super) fn new(options: &RequestOptions) -> Self {
        Self {
            options: options.clone(),
            ..Self::default()
        }
    }

    /// The user's options, adapted to the model.
    pub(super) fn options(&self) -> RequestOptions {
        let mut options = self.options.clone();
        let facts = self.facts();
        if facts.no_temperature {
            options.temperature = None;
        }
        for _ in 0..facts.reasoning_steps {
            options.reasoning = options.reasoning.and_then(nearest_reasoning);
        }
        options
    }

    /// Replaces or removes the option that a failure names. `None` if it names none that was sent.
    pub(super) fn adapt(&self, failure: &ProviderFailure) -> Option<Adaptation> {
        let sent = self.options();
        match failure.refused_option? {
            RefusedOption::Temperature => {
                sent.temperature?;
                self.learn(|facts| facts.no_temperature = true);
                Some(Adaptation::Announced(NO_TEMPERATURE))
            }
            RefusedOption::Reasoning => {
                let is_mapped = nearest_reasoning(sent.reasoning?).is_some();
                self.learn(|facts| facts.reasoning_steps += 1);
                Some(Adaptation::Announced(if is_mapped {
                    OTHER_REASONING
                } else {
                    NO_REASONING
                }))
            }
        }
    }

    /// Tokens of the context, if an error or a vendor's list has named them.
    pub(super) fn context_tokens(&self) -> Option<u64> {
        Some(self.facts().context_tokens).filter(|tokens| *tokens > 0)
    }

    pub(super) fn learn_context(&self, tokens: u64) {
        self.learn(|facts| facts.context_tokens = tokens);
        self.mark_new();
    }

    /// Records that the server's list has no size for the model.
    pub(super) fn learn_no_context(&self) {
        self.learn(|facts| facts.has_no_listed_context = true);
        self.mark_new();
    }

    /// Records that the model has thought without being asked.
    pub(super) fn learn_thinking(&self) {
        if self.learn(|facts| facts.thinks = true) {
            self.mark_new();
        }
    }

    /// Records that an answer has confirmed the facts.
    pub(super) fn mark_new(&self) {
        self.is_new.store(true, Ordering::Relaxed);
    }

    /// True if facts are to be stored. Clears the flag.
    pub(super) fn take_new(&self) -> bool {
        self.is_new.swap(false, Ordering::Relaxed)
    }

    /// The facts known now, without an expiry time.
    pub(super) fn facts(&self) -> ModelFacts {
        *self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a fact. True if it was not known before.
    pub(super) fn learn(&self, change: impl FnOnce(&mut ModelFacts)) -> bool {
        let mut facts = self.facts.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *facts;
        change(&mut facts);
        *facts != before
    }

    /// Loads the facts that earlier sessions have stored for the model with this tag. An unreadable file counts as empty.
    pub(super) fn recall(&self, file: &Path, tag: &str, now: i64) {
        if let Some(facts) = read_facts(file, now).remove(&self.key(tag)) {
            self.restore(facts);
        }
    }

    /// Restores earlier facts, because the adaptations since then have not helped.
    pub(super) fn restore(&self, facts: ModelFacts) {
        self.learn(|known| *known = ModelFacts { until: 0, ..facts });
    }

    /// Stores the facts known now, if they differ. After an error the next session learns them again.
    pub(super) fn keep(&self, file: &Path, tag: &str, now: i64) {
        let mut all = read_facts(file, now);
        let facts = ModelFacts {
            until: now + LEARNED_DAYS * 24 * 60 * 60,
            ..self.facts()
        };
        let known = all.get(&self.key(tag)).copied().unwrap_or_default();
        if (ModelFacts {
            until: known.until,
            ..facts
        }) == known
        {
            return;
        }
        all.insert(self.key(tag), facts);
        while all.len() > LEARNED_MODELS_MAX {
            let oldest = all
                .iter()
                .min_by_key(|(_, facts)| facts.until)
                .map(|(tag, _)| tag.clone());
            oldest.and_then(|oldest| all.remove(&oldest));
        }
        if let Err(error) = write_facts(file, &all) {
            tracing::info!(%error, "what was learned about a model is not kept");
        }
    }

    /// Key of the facts in the file. It contains the configured reasoning, because the adaptations started from it and
    /// are wrong for another.
    fn key(&self, tag: &str) -> String {
        match self.options.reasoning {
            None => tag.to_owned(),
            Some(Reasoning::Effort(effort)) => format!("{tag} {}", effort.name()),
            Some(Reasoning::Budget(tokens)) => format!("{tag} {tokens}"),
        }
    }
}

/// The option to try instead of a refused one. `None` if the model's own default is nearer than any other.
fn nearest_reasoning(refused: Reasoning) -> Option<Reasoning> {
    match refused {
        Reasoning::Budget(0) | Reasoning::Effort(Effort::None | Effort::Minimal) => {
            Some(Reasoning::Effort(Effort::Low))
        }
        Reasoning::Budget(tokens) => Some(Reasoning::Effort(Effort::of_budget(tokens))),
        Reasoning::Effort(Effort::Xhigh | Effort::Max) => Some(Reasoning::Effort(Effort::High)),
        Reasoning::Effort(Effort::Low | Effort::Medium | Effort::High) => None,
    }
}

fn read_facts(file: &Path, now: i64) -> BTreeMap<String, ModelFacts> {
    let text = std::fs::read(file).unwrap_or_default();
    let mut all: BTreeMap<String, ModelFacts> = serde_json::from_slice(&text).unwrap_or_default();
    all.retain(|_, facts| facts.until > now);
    all
}

/// Replaces the file as a whole. If two sessions write at once, the last one wins.
fn write_facts(file: &Path, all: &BTreeMap<String, ModelFacts>) -> std::io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    let new = folder.join(format!("{}.new", uuid::Uuid::new_v4().simple()));
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options.open(&new)?.write_all(&serde_json::to_vec(all)?)?;
    std::fs::rename(&new, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(reasoning: Reasoning) -> LearnedOptions {
        LearnedOptions::new(&RequestOptions {
            reasoning: Some(reasoning),
            temperature: Some(0.5.try_into().expect("it is between 0 and 2")),
            ..RequestOptions::default()
        })
    }

    fn refused(words: &str) -> ProviderFailure {
        let body = serde_json::json!({"error": {"message": words}}).to_string();
        ProviderFailure::from_answer(400, &body, None)
    }

    #[test]
    fn a_refused_option_becomes_the_nearest_one_and_is_then_left_out() {
        let effort = |effort| Some(Reasoning::Effort(effort));
        for (set, steps) in [
            (Reasoning::Effort(Effort::None), vec![effort(Effort::Low), None]),
            (Reasoning::Budget(0), vec![effort(Effort::Low), None]),
            (Reasoning::Budget(4_000), vec![effort(Effort::Medium), None]),
            (Reasoning::Effort(Effort::Max), vec![effort(Effort::High), None]),
            (Reasoning::Effort(Effort::Medium), vec![None]),
        ] {
            let learned = with(set);
            let refusal = refused("Unsupported value: reasoning_effort is not supported with this model.");
            for expected in steps {
                assert!(learned.adapt(&refusal).is_some());
                assert_eq!(learned.options().reasoning, expected, "{set:?}");
            }
            assert_eq!(learned.adapt(&refusal), None, "nothing is left to change");
        }
    }

    #[test]
    fn the_words_of_the_vendors_name_the_option() {
        for (words, option) in [
            (
                "`temperature` is deprecated for this model.",
                Some(RefusedOption::Temperature),
            ),
            (
                "Unsupported parameter: 'temperature' is not supported with this model.",
                Some(RefusedOption::Temperature),
            ),
            (
                "\"thinking.type.disabled\" is not supported for this model.",
                Some(RefusedOption::Reasoning),
            ),
            (
                "Budget 0 is invalid. This model only works in thinking mode.",
                Some(RefusedOption::Reasoning),
            ),
            (
                "Invalid value at 'generation_config.thinking_config.thinking_level'",
                Some(RefusedOption::Reasoning),
            ),
            (
                "Unsupported value: 'minimal' is not supported with the 'm' model. Supported values are: 'low'.",
                None,
            ),
            ("messages.1.content.0: Invalid `signature` in `thinking` block", None),
            (
                "thinking is enabled but reasoning_content is missing in assistant tool call message at index 6",
                None,
            ),
            ("The model `x` does not exist", None),
            (
                "Extra inputs are not permitted: {'content': 'the temperature of the boiler'}",
                None,
            ),
        ] {
            assert_eq!(refused(words).refused_option, option, "{words}");
        }
        let body =
            serde_json::json!({"error": {"message": "Unsupported value: 'minimal'.", "param": "reasoning.effort"}});
        let failure = ProviderFailure::from_answer(400, &body.to_string(), None);
        assert_eq!(
            failure.refused_option,
            Some(RefusedOption::Reasoning),
            "by the field that the server names"
        );
    }

    #[test]
    fn what_has_not_helped_is_forgotten() {
        let learned = with(Reasoning::Budget(4_000));
        let before = learned.facts();
        learned.adapt(&refused("`temperature` is deprecated for this model."));
        learned.adapt(&refused("thinking_budget is not supported"));
        learned.restore(before);
        assert_eq!(learned.options(), with(Reasoning::Budget(4_000)).options());
        assert!(!learned.take_new(), "nothing was proved");
        learned.learn_thinking();
        assert!(learned.take_new() && !learned.take_new(), "it is kept once");
    }

    #[test]
    fn what_was_learned_is_kept_for_thirty_days() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = folder.path().join("models.json");
        let first = with(Reasoning::Budget(4_000));
        first.keep(&file, "tag", 1_000);
        assert!(!file.exists(), "nothing was learned");
        first.adapt(&refused("`temperature` is deprecated for this model."));
        first.adapt(&refused("thinking_budget is not supported"));
        first.keep(&file, "tag", 1_000);
        let recalled = |tag: &str, days: i64| {
            let learned = with(Reasoning::Budget(4_000));
            learned.recall(&file, tag, 1_000 + days * 24 * 60 * 60);
            learned.options()
        };
        assert_eq!(recalled("tag", 29), first.options());
        assert_eq!(recalled("tag", 31), with(Reasoning::Budget(4_000)).options());
        assert_eq!(recalled("another", 0), with(Reasoning::Budget(4_000)).options());
        let other = with(Reasoning::Effort(Effort::High));
        other.recall(&file, "tag", 1_000);
        assert_eq!(
            other.options(),
            with(Reasoning::Effort(Effort::High)).options(),
            "another option is asked anew"
        );
    }
}
