//! Outcome of a turn: how it ended, what there is, and what is missing.

use std::fmt;
use std::sync::Arc;

use crate::{Message, ProviderError, Usage};

/// Outcome of a turn.
#[derive(Debug)]
pub struct TurnReport {
    /// The conversation, but for the last answer: see [`TurnReport::take_messages`].
    pub messages: Vec<Message>,
    /// Offset of the last answer in the text, unless it is among the messages.
    pub(super) last: Option<usize>,
    /// All answer text of this turn, as the observer was told it.
    pub text: Arc<String>,
    /// Tokens of all requests, those of earlier turns included.
    pub usage: Usage,
    /// Requests that were made, those of earlier turns included.
    pub steps: u32,
    /// Names of the calls that the model asked for and that did not run, or not to their end, because the turn ended;
    /// for [`Budget::Repetition`] the call that came again.
    pub undone: Vec<String>,
    /// End of the turn.
    pub end: Result<TurnEnd, ProviderError>,
}

impl TurnReport {
    /// Takes out the conversation, the answers included; every call in it has its answer.
    pub fn take_messages(&mut self) -> Vec<Message> {
        let mut messages = std::mem::take(&mut self.messages);
        if let Some(from) = self.last.take() {
            messages.push(Message::said(&self.text[from..]));
        }
        messages
    }
}

/// End of a turn that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnEnd {
    /// The model said all it had to say.
    Complete,
    /// The model, or its vendor's filter, declined.
    Refused,
    /// A bound ended it: what there is, is partial.
    Exhausted(Budget),
}

/// The bound that ended a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Budget {
    /// `steps_max`.
    Steps,
    /// `tokens_max`.
    Tokens {
        /// Estimated tokens of the request that was not made; 0 where the bound cut off an answer.
        needed: u64,
    },
    /// `deadline`.
    Time,
    /// The output limit of a single answer.
    Output,
    /// One call was made again and again.
    Repetition,
}

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Steps => "the limit of rounds is reached",
            Self::Tokens { .. } => "the limit of tokens is reached",
            Self::Time => "the time is up",
            Self::Output => "the model's output limit cut it off",
            Self::Repetition => "the model made the same call again and again",
        })
    }
}
