//! Steps that mend a problem, as data. The command line names a command for a step; programs that use the HTTP
//! interface and other agents get a sentence.

use serde::{Deserialize, Serialize};

/// A step of the user that mends a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
#[allow(missing_docs, reason = "`sentence` says what each is")]
pub enum Action {
    ListSessions,
    EndSession,
    UndoSession,
    MakePreview,
    ShowPreview,
    ApplyPart,
    ApplyOthers {
        session_id: String,
    },
    DiscardPreview {
        session_id: String,
    },
    ListSkills,
    LockSkills,
    ShowCalls {
        symbol: String,
    },
    EnableProvider {
        name: String,
    },
    NameProvider {
        name: String,
    },
    /// One of a later version.
    #[serde(other)]
    Other,
}

impl Action {
    /// The action for a program or for another agent.
    pub fn sentence(&self) -> String {
        match self {
            Self::ListSessions => "look at the list of sessions",
            Self::EndSession => "wait for a session to end, or cancel one",
            Self::UndoSession => "undo the session to take its changes back",
            Self::MakePreview => "start a refactor or test-gen with `preview`",
            Self::ShowPreview => "look at the proposed files in the diff of the preview",
            Self::ApplyPart => "look at the diff of the preview; `partial` applies it although it is incomplete",
            Self::ApplyOthers { .. } => {
                "name the other files to apply only these, or take the changes over from the diff by hand"
            }
            Self::DiscardPreview { session_id } => return format!("discard `{session_id}` to drop what it proposes"),
            Self::ListSkills => "look at the list of skills",
            Self::LockSkills => "write the lock file anew; without the file nothing is locked",
            Self::ShowCalls { symbol } => {
                return format!("it is a definition: ask for the calls of the symbol `{symbol}`");
            }
            Self::EnableProvider { name } => return format!("enable `{name}`, or leave `provider` out"),
            Self::NameProvider { name } => {
                return format!("if that is what you want, say so: name the provider `{name}`");
            }
            Self::Other => "",
        }
        .to_owned()
    }
}
