//! Content of a session's requests, depending on the size of the model's context.
//!
//! A smaller context gets a shorter prompt and shorter skills. If skills and their results do not fit, the model gets
//! one packet and no skill, and operations that need calls are refused.

use super::tool_list::ToolList;
use crate::limits;
use tool_core::api::{ErrorKind, Operation, Problem};
use tool_core::text::TokenRate;
use tool_skill::OfferedTools;

/// Skills in the tools of [`RequestForm::FewTools`]; `find_skill` finds the others.
const DIRECT_SKILLS: [&str; 4] = ["read_file", "search_code", "list_files", "write_file"];

/// Content of the requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestForm {
    /// The whole prompt and all skills.
    Whole,
    /// A short prompt, and short descriptions of all skills.
    Short,
    /// A short prompt, and short descriptions of some skills. `find_skill` finds the others.
    FewTools,
    /// A short prompt and no skill.
    Packet,
}

impl RequestForm {
    /// The form for a context of this size; the whole one if the size is not known.
    pub(super) fn for_context(context_tokens: Option<u64>) -> Self {
        let forms = [
            (limits::TOOLS_CONTEXT_TOKENS_MIN, Self::Packet),
            (limits::FEW_TOOLS_CONTEXT_TOKENS, Self::FewTools),
            (limits::SHORT_CONTEXT_TOKENS, Self::Short),
        ];
        let tokens = context_tokens.unwrap_or(limits::CONTEXT_TOKENS);
        let smallest = forms.into_iter().find(|(below, _)| tokens < *below);
        smallest.map_or(Self::Whole, |(_, form)| form)
    }

    pub(super) fn is_short(self) -> bool {
        self != Self::Whole
    }

    /// Refuses an operation that needs skills if the context has no room for them.
    pub(super) fn check(self, operation: Operation, context_tokens: Option<u64>) -> Result<(), Problem> {
        let (Self::Packet, Some(tokens)) = (self, context_tokens) else {
            return Ok(());
        };
        if operation == Operation::Explain {
            return Ok(());
        }
        let needed = limits::TOOLS_CONTEXT_TOKENS_MIN;
        let message = format!("Context length exceeded: {tokens} tokens, and {operation} needs {needed}");
        Err(Problem::new(ErrorKind::ContextLengthExceeded, message).with_hint(
            "load the model with a larger context; `tool ask` and `tool explain` work with this one; if the model takes \
             more, set `context_tokens` of its provider in config.toml",
        ))
    }

    /// Tools for the model.
    pub(super) fn list_tools(
        self,
        offered: OfferedTools,
        operation: Operation,
        context_tokens: Option<u64>,
    ) -> ToolList {
        let (offered, direct) = match self {
            Self::Whole => (offered, None),
            Self::Short => (offered.shortened(), None),
            Self::FewTools => (offered.shortened(), Some(&DIRECT_SKILLS[..])),
            Self::Packet => return ToolList::default(),
        };
        ToolList::new(offered, operation, direct, context_tokens)
    }

    /// Budget of a packet, in tokens as the context engine counts them. The rest of the context is for instructions,
    /// tools, results and the answer.
    pub(super) fn packet_tokens(self, context_tokens: Option<u64>, rate: TokenRate) -> u64 {
        let context = context_tokens.unwrap_or(limits::CONTEXT_TOKENS);
        let tokens = match self {
            Self::Whole => return limits::PACKET_TOKENS.min(context / 3),
            Self::Short | Self::FewTools => context / 4,
            Self::Packet => context / 2,
        };
        tool_context::packet_tokens(rate.bytes(tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_follows_the_context() {
        for (context, form) in [
            (None, RequestForm::Whole),
            (Some(32_768), RequestForm::Whole),
            (Some(16_384), RequestForm::Whole),
            (Some(8_192), RequestForm::Short),
            (Some(8_000), RequestForm::FewTools),
            (Some(4_096), RequestForm::Packet),
            (Some(512), RequestForm::Packet),
        ] {
            assert_eq!(RequestForm::for_context(context), form, "{context:?}");
        }
    }

    #[test]
    fn an_operation_that_works_by_calls_names_the_context_that_it_needs() {
        for operation in Operation::ALL {
            let refused = RequestForm::Packet.check(operation, Some(4_096)).err();
            let expected = (operation != Operation::Explain)
                .then(|| format!("Context length exceeded: 4096 tokens, and {operation} needs 6144"));
            assert_eq!(refused.map(|problem| problem.message), expected);
            assert_eq!(RequestForm::FewTools.check(operation, Some(8_000)), Ok(()));
        }
    }
}
