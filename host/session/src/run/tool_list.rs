//! The tools for the model of a session. They stay the same in a whole conversation: providers cache the beginning of
//! a request, and some models bind their thinking to it.
//!
//! Every request carries the whole list, so it contains a team's skills only if they are short. Otherwise
//! `find_skill` describes them to the model, and `call_skill` calls them. The same holds for a skill for some
//! operations only, because the operation may change within a conversation.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits;
use tool_core::api::Operation;
use tool_core::text::{estimated_tokens, nearest_name};
use tool_provider::{TextOrigin, ToolCall, ToolResult, ToolSpec};
use tool_skill::{CALL_SKILL, FIND_SKILL, OfferedTools, SkillTool, drop_keywords};

/// Limit for the tokens of a team's skills without `find_skill`: half of the built-in skills' own.
const TEAM_TOOLS_TOKENS_MAX: u64 = 2_000;

/// Divisor for the part of the context that a team's skills, or the answer to one search, may take.
const CONTEXT_PART: u64 = 10;

/// Limit for the skills that one search finds.
const FOUND_MAX: usize = 5;

/// Limit for skill names in the description of `find_skill` and in an answer without a match, in bytes: some 60
/// names.
const NAMES_BYTES_MAX: usize = 1_200;

/// Limit for a skill's description in an answer without room for all of it, in characters.
const SHOWN_CHARACTERS_MAX: usize = 160;

/// Keywords that limit a length. The schemas of built-in skills leave them out: the host checks every call against
/// them all the same, and its error names the limit.
const LENGTHS: [&str; 4] = ["minLength", "maxLength", "minItems", "maxItems"];

/// Number of letters at the beginning of two words that makes them similar: `lint` finds `linter`, `migrate` finds
/// `migration`.
const STEM_LETTERS: usize = 4;

/// Tools for the model, and skills that it can find.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    /// Tools in every request.
    specs: Vec<ToolSpec>,
    /// Skills that `find_skill` finds.
    hidden: Vec<SkillTool>,
    operation: Option<Operation>,
    /// Limit for an answer of `find_skill` in tokens.
    found_tokens_max: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindSkillArguments {
    query: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CallSkillArguments {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl ToolList {
    /// Creates the list for a model with a context of `context_tokens`. It contains the skills in `direct`; without
    /// `direct` all built-in skills, and those of the team if they are short.
    pub(super) fn new(
        offered: OfferedTools,
        operation: Operation,
        direct: Option<&[&str]>,
        context_tokens: Option<u64>,
    ) -> Self {
        let context_tokens = context_tokens
            .unwrap_or(limits::CONTEXT_TOKENS)
            .min(limits::CONTEXT_TOKENS);
        let OfferedTools { builtin, team } = offered;
        let team_tokens = team.iter().filter(|tool| tool.operations.is_none());
        let team_tokens: u64 = team_tokens.map(|tool| estimated_tokens(tool.spec.bytes())).sum();
        let is_small = team_tokens <= TEAM_TOOLS_TOKENS_MAX.min(context_tokens / CONTEXT_PART);
        let builtin = builtin.into_iter().map(|mut spec| {
            drop_keywords(&mut spec.parameters, &LENGTHS);
            let (tags, operations) = (Vec::new(), None);
            (true, SkillTool { spec, tags, operations })
        });
        let team = team
            .into_iter()
            .map(|tool| (is_small && tool.operations.is_none(), tool));
        let (mut specs, mut hidden) = (Vec::new(), Vec::new());
        for (is_usual, tool) in builtin.chain(team) {
            if direct.map_or(is_usual, |names| names.contains(&tool.spec.name.as_str())) {
                specs.push(tool.spec);
            } else {
                hidden.push(tool);
            }
        }
        if !hidden.is_empty() {
            specs.extend([find_skill(&hidden), call_skill()]);
        }
        Self {
            specs,
            hidden,
            operation: Some(operation),
            found_tokens_max: context_tokens / CONTEXT_PART,
        }
    }

    /// Tools in every request.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        self.specs.clone()
    }

    /// Resolves a call of `call_skill`. The model may also call a hidden skill by its own name.
    pub(super) fn resolve(&self, call: &ToolCall) -> Result<Option<ToolCall>, String> {
        if self.hidden.is_empty() {
            return Ok(None);
        }
        let stands_for_another = call.name == CALL_SKILL;
        let meant = if stands_for_another {
            read_call(call)?
        } else {
            call.clone()
        };
        let is_offered = self.specs.iter().any(|spec| spec.name == meant.name);
        if is_offered && meant.name != CALL_SKILL {
            return Ok(stands_for_another.then_some(meant));
        }
        match self.hidden.iter().find(|tool| tool.spec.name == meant.name) {
            Some(tool) if self.is_for(tool) => Ok(Some(meant)),
            Some(tool) => Err(refuse_operation(tool)),
            None => Err(self.refuse_unknown(&meant.name)),
        }
    }

    /// Answers a call of `find_skill`; `None` for a call of a skill.
    pub(super) fn answer(&self, call: &ToolCall) -> Option<ToolResult> {
        if call.name != FIND_SKILL || self.hidden.is_empty() {
            return None;
        }
        let answer = match serde_json::from_str::<FindSkillArguments>(&call.arguments) {
            Ok(arguments) => self.find(&arguments.query),
            Err(error) => Err(format!(
                "Invalid arguments for `{FIND_SKILL}`: {error}. Give `query`, a text."
            )),
        };
        Some(ToolResult {
            call_id: call.id.clone(),
            name: call.name.clone(),
            is_error: answer.is_err(),
            text: answer.unwrap_or_else(|error| error),
            origin: TextOrigin::Service,
        })
    }

    fn is_for(&self, tool: &SkillTool) -> bool {
        match (self.operation, &tool.operations) {
            (Some(operation), Some(operations)) => operations.contains(&operation),
            _ => true,
        }
    }

    fn refuse_unknown(&self, name: &str) -> String {
        let hidden = self.hidden.iter().map(|tool| &tool.spec);
        let known = self.specs.iter().chain(hidden).map(|spec| spec.name.as_str());
        let suggestion = nearest_name(&name.to_lowercase(), known);
        let suggestion = suggestion.map_or_else(String::new, |nearest| format!(" Did you mean `{nearest}`?"));
        format!(
            "There is no tool named `{name}`.{suggestion} `{FIND_SKILL}` finds the skills that your list of tools does not \
             show."
        )
    }

    /// Describes the skills that fit a question best, with their arguments.
    fn find(&self, query: &str) -> Result<String, String> {
        let matches = self.ranked(query);
        if matches.is_empty() {
            if let Some(named) = self.hidden.iter().find(|tool| tool.spec.name == query.trim()) {
                return Err(refuse_operation(named));
            }
            let usable: Vec<&SkillTool> = self.hidden.iter().filter(|tool| self.is_for(tool)).collect();
            return Err(match &list_names(&usable)[..] {
                "" => "No skill matches.".to_owned(),
                names => format!("No skill matches. Ask with other words, or by a name: {names}."),
            });
        }
        let mut text = format!("Run a skill with `{CALL_SKILL}`.");
        for (place, SkillTool { spec, .. }) in matches.into_iter().take(FOUND_MAX).enumerate() {
            let (name, description) = (&spec.name, &spec.description);
            let whole = format!("\n\n`{name}`: {description}\nIts arguments: {}", spec.parameters);
            if place == 0 || estimated_tokens(text.len() + whole.len()) <= self.found_tokens_max {
                text.push_str(&whole);
            } else {
                let shown: String = description.chars().take(SHOWN_CHARACTERS_MAX).collect();
                text.push_str(&format!(
                    "\n\n`{name}`: {shown} (Ask for it by its name to see its arguments.)"
                ));
            }
        }
        Ok(text)
    }

    /// Hidden skills that share a word with the question, the best first. If the question is the name of a skill,
    /// only that one.
    fn ranked(&self, query: &str) -> Vec<&SkillTool> {
        let wanted = split_words(query);
        let score = |SkillTool { spec, tags, .. }: &SkillTool| {
            let (mut name, description) = (split_words(&spec.name), split_words(&spec.description));
            name.extend(tags.iter().flat_map(|tag| split_words(tag)));
            let parameters = spec.parameters["properties"].as_object().into_iter().flatten();
            let parameters: BTreeSet<String> = parameters.flat_map(|(name, _)| split_words(name)).collect();
            let weigh = |word: &String| match word {
                word if name.contains(word) => 8,
                word if has_stem(&name, word) => 5,
                word if description.contains(word) => 3,
                word if has_stem(&description, word) => 2,
                word if parameters.contains(word) => 1,
                _ => 0,
            };
            wanted.iter().map(weigh).sum::<u32>()
        };
        let usable = self.hidden.iter().filter(|tool| self.is_for(tool));
        if let Some(named) = usable.clone().find(|tool| tool.spec.name == query.trim()) {
            return vec![named];
        }
        let scored = usable.map(|tool| (tool, score(tool)));
        let mut scored: Vec<(&SkillTool, u32)> = scored.filter(|(_, score)| *score > 0).collect();
        scored.sort_by_key(|(_, score)| std::cmp::Reverse(*score));
        // A word that many skills share says little beside a good match.
        let best = scored.first().map_or(0, |(_, score)| *score);
        scored.retain(|(_, score)| score * 2 >= best);
        scored.into_iter().map(|(tool, _)| tool).collect()
    }
}

fn refuse_operation(SkillTool { spec, operations, .. }: &SkillTool) -> String {
    let operations: Vec<String> = operations.iter().flatten().map(Operation::to_string).collect();
    format!("`{}` is only for {}.", spec.name, operations.join(" and "))
}

/// Reads the call inside a call of `call_skill`.
fn read_call(call: &ToolCall) -> Result<ToolCall, String> {
    let read = serde_json::from_str::<CallSkillArguments>(&call.arguments);
    let CallSkillArguments { name, arguments } = read.map_err(|error| {
        format!(
            "Invalid arguments for `{CALL_SKILL}`: {error}. Give `name`, the name of a skill, and `arguments`, an object."
        )
    })?;
    Ok(ToolCall {
        id: call.id.clone(),
        name,
        arguments: match arguments {
            Value::Null => String::new(),
            // Some models write the object as text, and all models do if the wire has no free objects.
            Value::String(text) => text,
            arguments => arguments.to_string(),
        },
    })
}

/// The tool that describes hidden skills.
fn find_skill(hidden: &[SkillTool]) -> ToolSpec {
    let (count, names) = (hidden.len(), list_names(&hidden.iter().collect::<Vec<_>>()));
    ToolSpec {
        name: FIND_SKILL.to_owned(),
        description: format!(
            "Finds skills beside these tools, and tells their arguments. Look here before you do by hand what one of the \
             {count} may do: {names}."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "description": "What the skill is to do, in a few words, or its name."
                }
            },
            "required": ["query"],
            "additionalProperties": false
        }),
    }
}

/// The tool that calls hidden skills.
fn call_skill() -> ToolSpec {
    ToolSpec {
        name: CALL_SKILL.to_owned(),
        description: format!("Runs a skill that `{FIND_SKILL}` has found."),
        parameters: json!({
            "type": "object",
            "properties": {
                "name": {"type": "string", "description": "The skill's name."},
                "arguments": {"type": "object", "description": "The skill's own arguments."}
            },
            "required": ["name", "arguments"],
            "additionalProperties": false
        }),
    }
}

/// Lists as many names of skills as fit.
fn list_names(tools: &[&SkillTool]) -> String {
    let mut text = String::new();
    for (at, SkillTool { spec, .. }) in tools.iter().enumerate() {
        if text.len() + spec.name.len() > NAMES_BYTES_MAX {
            return format!("{text} and {} more", tools.len() - at);
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&spec.name);
    }
    text
}

/// The words of a text or a name in lower case. Words of one or two letters are left out, because they match by
/// chance.
fn split_words(text: &str) -> BTreeSet<String> {
    let parts = text.split(|character: char| !character.is_alphanumeric());
    let long = parts.filter(|part| part.chars().count() > 2);
    long.map(str::to_lowercase).collect()
}

/// True if one of the words equals `wanted` or shares its beginning.
fn has_stem(words: &BTreeSet<String>, wanted: &str) -> bool {
    let shared = |word: &str| {
        let pairs = word.chars().zip(wanted.chars());
        pairs.take_while(|(left, right)| left == right).count()
    };
    words.iter().any(|word| {
        let shorter = word.chars().count().min(wanted.chars().count());
        let shared = shared(word);
        shared >= STEM_LETTERS && shared + 1 >= shorter
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(name: &str, description: &str) -> ToolSpec {
        ToolSpec {
            name: name.to_owned(),
            description: description.to_owned(),
            parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
        }
    }

    fn tool(name: &str, description: &str) -> SkillTool {
        SkillTool {
            spec: spec(name, description),
            tags: Vec::new(),
            operations: None,
        }
    }

    /// A team with so many skills, of about a hundred tokens each.
    fn offered(count: usize) -> OfferedTools {
        let filler = "It reads files and reports each place. ".repeat(8);
        let mut team: Vec<SkillTool> = (0..count.saturating_sub(3))
            .map(|number| tool(&format!("report_{number:02}"), &filler))
            .collect();
        let named = [
            ("sql_linter", "Checks SQL statements in migrations."),
            ("licence_headers", "Adds the licence to the head of each file."),
            ("ticket", "Reads a ticket of the issue tracker."),
        ];
        team.extend(named.map(|(name, text)| tool(name, &format!("{text} {filler}"))));
        OfferedTools {
            builtin: vec![spec("read_file", "Reads a file."), spec("write_file", "Writes a file.")],
            team,
        }
    }

    fn list(count: usize, context_tokens: Option<u64>) -> ToolList {
        ToolList::new(offered(count), Operation::Explain, None, context_tokens)
    }

    fn names_of(list: &ToolList) -> Vec<String> {
        list.specs().into_iter().map(|spec| spec.name).collect()
    }

    fn call(name: &str, arguments: &str) -> ToolCall {
        ToolCall {
            id: "a".to_owned(),
            name: name.to_owned(),
            arguments: arguments.to_owned(),
        }
    }

    fn ask(list: &ToolList, arguments: &str) -> ToolResult {
        list.answer(&call(FIND_SKILL, arguments))
            .expect("it is a call of `find_skill`")
    }

    #[test]
    fn a_few_skills_are_offered_as_they_are() {
        let few = list(3, None);
        assert_eq!(
            names_of(&few),
            ["read_file", "write_file", "sql_linter", "licence_headers", "ticket"]
        );
        assert!(few.answer(&call(FIND_SKILL, "{}")).is_none(), "nothing is to be found");
        assert_eq!(few.resolve(&call(CALL_SKILL, "{}")), Ok(None));
        assert_eq!(names_of(&list(0, None)).len(), 5);
    }

    #[test]
    fn the_bound_is_2000_tokens_or_a_tenth_of_the_context() {
        let is_hidden = |count: usize, context_tokens: Option<u64>| {
            names_of(&list(count, context_tokens)).contains(&FIND_SKILL.to_owned())
        };
        let each = estimated_tokens(offered(4).team[0].spec.bytes());
        let most = usize::try_from(TEAM_TOOLS_TOKENS_MAX / each).expect("it is small");
        assert!(!is_hidden(most - 1, None));
        assert!(is_hidden(most + 1, None));
        assert!(!is_hidden(8, Some(16_384)));
        assert!(is_hidden(8, Some(4_096)));
    }

    #[test]
    fn a_search_tells_how_a_skill_is_called_and_leaves_the_list_as_it_is() {
        let list = list(60, None);
        let before = list.specs();
        assert_eq!(names_of(&list), ["read_file", "write_file", FIND_SKILL, CALL_SKILL]);
        let answer = ask(&list, r#"{"query": "lint the sql of a migration"}"#);
        assert!(!answer.is_error);
        let told = "Run a skill with `call_skill`.\n\n`sql_linter`: Checks SQL statements in migrations.";
        assert!(answer.text.starts_with(told), "{}", answer.text);
        let schema = r#"Its arguments: {"type":"object","properties":{"path":{"type":"string"}}}"#;
        assert!(answer.text.contains(schema), "{}", answer.text);
        let named = ask(&list, r#"{"query": " report_07 "}"#);
        assert_eq!(
            named.text.matches("Its arguments").count(),
            1,
            "of a name that one alone"
        );
        assert_eq!(list.specs(), before);
    }

    #[test]
    fn a_call_stands_for_that_of_a_skill_which_is_found_or_offered() {
        let list = list(60, None);
        let meant = |name: &str, arguments: &str| list.resolve(&call(name, arguments));
        for (arguments, name, expected) in [
            (
                r#"{"name": "ticket", "arguments": {"path": "a"}}"#,
                "ticket",
                r#"{"path":"a"}"#,
            ),
            (
                r#"{"name": "ticket", "arguments": "{\"path\": 1}"}"#,
                "ticket",
                r#"{"path": 1}"#,
            ),
            (r#"{"name": "ticket"}"#, "ticket", ""),
            (r#"{"name": "read_file", "arguments": {}}"#, "read_file", "{}"),
        ] {
            assert_eq!(meant(CALL_SKILL, arguments), Ok(Some(call(name, expected))));
        }
        assert_eq!(meant("ticket", "{}"), Ok(Some(call("ticket", "{}"))));
        assert_eq!(meant("read_file", "{}"), Ok(None));
        for (name, arguments) in [("tickets", "{}"), (CALL_SKILL, r#"{"name": "Tickets"}"#)] {
            let refused = meant(name, arguments).expect_err("there is none");
            assert!(
                refused.contains("Did you mean `ticket`? `find_skill` finds"),
                "{refused}"
            );
        }
        for arguments in [
            r#"{"name": "call_skill"}"#,
            "{}",
            r#"{"name": "ticket", "path": "a"}"#,
            "[",
        ] {
            assert!(meant(CALL_SKILL, arguments).is_err(), "{arguments}");
        }
    }

    #[test]
    fn the_skills_that_are_named_are_the_only_ones_in_the_list() {
        let list = ToolList::new(offered(3), Operation::Explain, Some(&["read_file"]), Some(8_192));
        assert_eq!(names_of(&list), ["read_file", FIND_SKILL, CALL_SKILL]);
        assert!(
            ask(&list, r#"{"query": "write_file"}"#)
                .text
                .contains("`write_file`: Writes")
        );
    }

    #[test]
    fn a_skill_for_other_operations_is_neither_found_nor_called_and_changes_no_list() {
        let of = |operation: Operation| {
            let mut offered = offered(3);
            offered.team[0].operations = Some(vec![Operation::Refactor]);
            ToolList::new(offered, operation, None, None)
        };
        let (explain, refactor) = (of(Operation::Explain), of(Operation::Refactor));
        assert_eq!(explain.specs(), refactor.specs());
        let arguments = r#"{"name": "sql_linter", "arguments": {}}"#;
        assert_eq!(
            explain.resolve(&call(CALL_SKILL, arguments)),
            Err("`sql_linter` is only for refactor.".to_owned())
        );
        assert!(refactor.resolve(&call(CALL_SKILL, arguments)).is_ok());
        let query = r#"{"query": "sql_linter"}"#;
        assert!(ask(&explain, query).is_error && !ask(&refactor, query).is_error);
    }

    #[test]
    fn a_search_without_a_match_names_the_skills() {
        let list = list(60, None);
        let answer = ask(&list, r#"{"query": "xyzzy"}"#);
        assert!(answer.is_error && answer.text.contains("ticket"), "{}", answer.text);
        for wrong in ["{}", "[]", r#"{"query": 1}"#, r#"{"query": "a", "limit": 1}"#] {
            let answer = ask(&list, wrong);
            assert!(
                answer.is_error && answer.text.contains("Give `query`"),
                "{}",
                answer.text
            );
        }
    }

    #[test]
    fn an_answer_takes_a_bounded_part_of_the_context() {
        let list = list(60, Some(4_096));
        let answer = ask(&list, r#"{"query": "report"}"#).text;
        assert!(estimated_tokens(answer.len()) <= 4_096 / CONTEXT_PART + 200, "{answer}");
        assert!(answer.contains("Its arguments") && answer.contains("Ask for it by its name"));
    }

    #[test]
    fn a_built_in_schema_has_no_bounds_of_lengths_for_a_model() {
        let mut offered = offered(0);
        offered.builtin[0].parameters = json!({"type": "object", "properties": {
            "minLength": {"type": "string", "minLength": 1, "description": "A property of that name."},
            "paths": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 9}},
            "limit": {"type": "integer", "minimum": 1}
        }});
        let specs = ToolList::new(offered, Operation::Explain, None, None).specs();
        assert_eq!(
            specs[0].parameters,
            json!({"type": "object", "properties": {
                "minLength": {"type": "string", "description": "A property of that name."},
                "paths": {"type": "array", "items": {"type": "string"}},
                "limit": {"type": "integer", "minimum": 1}
            }})
        );
    }

    #[test]
    fn names_are_bounded() {
        let many: Vec<SkillTool> = (0..1_000).map(|number| tool(&format!("skill_{number}"), "")).collect();
        let text = list_names(&many.iter().collect::<Vec<_>>());
        assert!(text.len() < NAMES_BYTES_MAX + 100 && text.ends_with(" more"), "{text}");
    }
}
