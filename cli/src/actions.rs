//! Actions that mend a problem, as commands.

use tool_core::api::Action;

/// The hint that names the commands of an action; `None` for one that this version does not know.
pub(crate) fn command_hint(action: &Action) -> Option<String> {
    Some(match action {
        Action::ListSessions => {
            "`tool history` lists sessions, with `--operation skill-call` your calls of skills".to_owned()
        }
        Action::EndSession => {
            "wait for one to end, or cancel one: `tool history` lists them, `tool cancel ID` ends one".to_owned()
        }
        Action::UndoSession => "`tool undo` takes changes back".to_owned(),
        Action::MakePreview => "`tool refactor --preview` and `tool test-gen --preview` make one".to_owned(),
        Action::ShowPreview => "`tool diff` shows the proposed files".to_owned(),
        Action::ApplyPart => {
            "`tool diff` shows what there is; `tool apply --partial` puts it in place all the same".to_owned()
        }
        Action::ApplyOthers { session_id } => format!(
            "name the other files to apply only these, or take the changes over by hand: \
             `tool apply {session_id} --patch FILE`"
        ),
        Action::DiscardPreview { session_id } => format!("`tool discard {session_id}` drops what it proposes"),
        Action::ListSkills => "`tool skill list` shows them".to_owned(),
        Action::LockSkills => {
            "`tool skill lock` writes it from what you have pinned; without the file nothing is locked".to_owned()
        }
        Action::ShowCalls { symbol } => {
            format!("it is a definition: `tool graph --symbol {symbol}` shows its callers and callees")
        }
        Action::EnableProvider { name } => {
            format!("switch with `tool init --provider {name}`, or leave `provider` out")
        }
        Action::NameProvider { name } => format!("if that is what you want, say so: `--provider {name}`"),
        Action::Other => return None,
    })
}
