//! Questions to the user: exactly what will happen, in visible characters, and how often the user said no.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tool_core::api::Effect;
use tool_core::text::{reveal_invisible, reveal_line};

/// A question to the user. [`Question::new`] makes every question, so that no text of one is invisible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    effect: Effect,
    title: String,
    detail: String,
    /// The skill call that waits for the answer.
    call_id: Option<Arc<str>>,
    may_last: bool,
}

impl Question {
    /// A question about an effect. Characters of `title` and `detail` that are invisible or reorder text are replaced
    /// by names such as `<U+202E>`.
    pub fn new(effect: Effect, title: &str, detail: &str) -> Self {
        Self {
            effect,
            title: reveal_line(title),
            detail: reveal_invisible(detail).into_owned(),
            call_id: None,
            may_last: false,
        }
    }

    /// The effect that needs a yes.
    pub fn effect(&self) -> Effect {
        self.effect
    }

    /// Title in one line.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// The exact diff, argument vector or request.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// The skill call that waits for the answer; absent if no call asks.
    pub fn call_id(&self) -> Option<&str> {
        self.call_id.as_deref()
    }

    /// True if the user may answer with a yes for the rest of the session.
    pub fn may_last(&self) -> bool {
        self.may_last
    }

    /// The same question, to which the user may also say yes for the rest of the session.
    pub(crate) fn lasting(&self) -> Self {
        Self {
            may_last: true,
            ..self.clone()
        }
    }

    /// The same question with the call that asks it, and with a remark after its title.
    pub(crate) fn of_call(&self, call_id: Option<&Arc<str>>, remark: Option<&str>) -> Self {
        let remark = remark.map(|remark| format!(" [{}]", reveal_line(remark)));
        Self {
            title: format!("{}{}", self.title, remark.unwrap_or_default()),
            call_id: call_id.cloned(),
            ..self.clone()
        }
    }
}

/// Answer of the user to a question. No answer counts as a no.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum UserAnswer {
    /// This may not happen.
    #[default]
    No,
    /// Exactly this may happen.
    Yes,
    /// The effect may happen for the rest of the session.
    YesForSession,
}

impl UserAnswer {
    /// True for a yes of any kind.
    pub fn is_yes(self) -> bool {
        self != Self::No
    }
}

/// Effects to which the user said yes for the rest of a session. A yes counts until text from outside enters the
/// conversation, because the user said yes to a conversation without that text.
#[derive(Debug, Default)]
pub struct LastingYeses(Mutex<BTreeMap<Effect, u64>>);

impl LastingYeses {
    /// Records a yes. `outside_texts` is the number of texts from outside when the user was asked.
    pub(crate) fn note(&self, effect: Effect, outside_texts: u64) {
        let mut yeses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        yeses.insert(effect, outside_texts);
    }

    /// True if a yes to `effect` still counts: no text from outside has arrived since, so `outside_texts`, their
    /// current number, is the same.
    pub(crate) fn covers(&self, effect: Effect, outside_texts: u64) -> bool {
        let yeses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        yeses.get(&effect) == Some(&outside_texts)
    }
}

/// Noes to one effect after which it is denied, so that a model gains nothing by asking until the user gives in.
const NOES_MAX: u32 = 2;

/// How often the user of a session said no, by effect. A question that is not answered in time counts as a no.
#[derive(Debug, Default)]
pub struct Refusals(Mutex<BTreeMap<Effect, u32>>);

impl Refusals {
    /// Counts a no.
    pub(crate) fn note(&self, effect: Effect) {
        *self.lock().entry(effect).or_default() += 1;
    }

    /// True if the user is not asked about the effect any more.
    pub fn is_final(&self, effect: Effect) -> bool {
        self.lock().get(&effect).is_some_and(|&noes| noes >= NOES_MAX)
    }

    /// True if this is so for any effect.
    pub(crate) fn has_final(&self) -> bool {
        self.lock().values().any(|&noes| noes >= NOES_MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Effect, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
