//! The tools that the model of a session is offered: the built-in skills, and those of a team.
//!
//! Every request carries the whole list, so a team's skills stand in it only where they take little. Otherwise the tool
//! `find_skill` stands in their place, which the session answers itself: skills that it finds join the end of the list
//! until the session ends, so that the beginning of a request stays the one that a provider has cached.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits;
use crate::provider::{TextOrigin, ToolCall, ToolResult, ToolSpec};
use crate::skill::{FIND_SKILL, OfferedTools, TeamTool};
use crate::text::estimated_tokens;

/// Tokens that a team's skills take of each request at most without `find_skill`: half of the built-in skills' own.
const TEAM_TOOLS_TOKENS_MAX: u64 = 2_000;

/// A team's skills take at most this part of the context without `find_skill`.
const TEAM_CONTEXT_PART: u64 = 10;

/// Found skills take at most this part of the context: a fifth leaves the greater part to the conversation.
const FOUND_CONTEXT_PART: u64 = 5;

/// Skills that one search adds. A question that needs more has not said what it wants.
const FOUND_MAX: usize = 5;

/// Bytes of skill names in the description of `find_skill` and in an answer without a match: some 60 names.
const NAMES_BYTES_MAX: usize = 1_200;

/// Characters of a skill's description in an answer; the whole text joins the list of tools.
const SHOWN_CHARACTERS_MAX: usize = 160;

/// Keywords that bound a length.
const LENGTHS: [&str; 4] = ["minLength", "maxLength", "minItems", "maxItems"];

/// Letters that a word of the question and a word of a skill share at least where neither is the other: `lint` finds
/// `linter`, `migrate` finds `migration`.
const STEM_LETTERS: usize = 4;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ToolList {
    /// Tools of every request.
    always: Vec<ToolSpec>,
    /// Skills that `find_skill` finds.
    hidden: Vec<TeamTool>,
    /// Positions in `hidden`, in the order in which they were found.
    found: Mutex<Vec<usize>>,
    /// Tokens that found skills may take together.
    found_tokens_max: u64,
}

/// Arguments of `find_skill`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FindSkillArguments {
    query: String,
}

impl ToolList {
    /// The list for a model with a context of so many tokens.
    pub(super) fn new(offered: OfferedTools, context_tokens: Option<u64>) -> Self {
        let context_tokens = context_tokens
            .unwrap_or(limits::CONTEXT_TOKENS)
            .min(limits::CONTEXT_TOKENS);
        let team_tokens_max = TEAM_TOOLS_TOKENS_MAX.min(context_tokens / TEAM_CONTEXT_PART);
        let OfferedTools { mut builtin, team } = offered;
        builtin.iter_mut().for_each(|spec| drop_bounds(&mut spec.parameters));
        let is_small = team.iter().map(|tool| tokens(&tool.spec)).sum::<u64>() <= team_tokens_max;
        let hidden = if is_small {
            builtin.extend(team.into_iter().map(|tool| tool.spec));
            Vec::new()
        } else {
            builtin.push(find_skill(&team));
            team
        };
        Self {
            always: builtin,
            hidden,
            found: Mutex::default(),
            found_tokens_max: context_tokens / FOUND_CONTEXT_PART,
        }
    }

    /// All tools that the model has now.
    pub(super) fn specs(&self) -> Vec<ToolSpec> {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let found = found.iter().map(|&at| &self.hidden[at].spec);
        self.always.iter().chain(found).cloned().collect()
    }

    /// The answer to a call of `find_skill`; nothing where the call is one of a skill.
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

    /// Adds the skills that fit a question best, and says which.
    fn find(&self, query: &str) -> Result<String, String> {
        let matches = self.ranked(query);
        if matches.is_empty() {
            let names = names(&self.hidden);
            return Err(format!(
                "No skill matches. Ask with other words, or by a name: {names}."
            ));
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lines = Vec::new();
        for at in matches.into_iter().take(FOUND_MAX) {
            let spec = &self.hidden[at].spec;
            let used: u64 = found.iter().map(|&at| tokens(&self.hidden[at].spec)).sum();
            let state = if found.contains(&at) {
                "is already in your tools"
            } else if used + tokens(spec) > self.found_tokens_max {
                "has no room: the tools that were found before fill their part of the context"
            } else {
                found.push(at);
                "is now in your tools"
            };
            let text: String = spec.description.chars().take(SHOWN_CHARACTERS_MAX).collect();
            lines.push(format!("`{}` {state}: {text}", spec.name));
        }
        Ok(lines.join("\n"))
    }

    /// Positions of the hidden skills that share a word with the question, the best first; of one alone that it names.
    fn ranked(&self, query: &str) -> Vec<usize> {
        let wanted = words(query);
        let score = |TeamTool { spec, tags }: &TeamTool| {
            let (mut name, description) = (words(&spec.name), words(&spec.description));
            name.extend(tags.iter().flat_map(|tag| words(tag)));
            let parameters = spec.parameters["properties"].as_object().into_iter().flatten();
            let parameters: BTreeSet<String> = parameters.flat_map(|(name, _)| words(name)).collect();
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
        let named = self.hidden.iter().position(|tool| tool.spec.name == query.trim());
        if let Some(named) = named {
            return vec![named];
        }
        let scored = self.hidden.iter().map(score).enumerate();
        let mut scored: Vec<(usize, u32)> = scored.filter(|(_, score)| *score > 0).collect();
        scored.sort_by_key(|(at, score)| (std::cmp::Reverse(*score), *at));
        // A match by a word that many skills have says little beside a good one.
        let best = scored.first().map_or(0, |(_, score)| *score);
        scored.retain(|(_, score)| score * 2 >= best);
        scored.into_iter().map(|(at, _)| at).collect()
    }
}

/// The tool that stands for a team's skills.
fn find_skill(team: &[TeamTool]) -> ToolSpec {
    let (count, names) = (team.len(), names(team));
    ToolSpec {
        name: FIND_SKILL.to_owned(),
        description: format!(
            "Finds skills of the user's team and adds them to your tools. Look here before you do by hand what one of the \
             {count} skills may do: {names}."
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

/// Removes bounds of lengths from a built-in skill's schema. The host holds every call to them all the same, and its
/// answer names a bound that a call exceeds.
fn drop_bounds(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // A property may have such a name: then its value is a schema.
            fields.retain(|key, value| !(value.is_number() && LENGTHS.contains(&key.as_str())));
            fields.values_mut().for_each(drop_bounds);
        }
        Value::Array(elements) => elements.iter_mut().for_each(drop_bounds),
        _ => {}
    }
}

/// The names of skills for a sentence, as many as have room.
fn names(team: &[TeamTool]) -> String {
    let mut text = String::new();
    for (at, TeamTool { spec, .. }) in team.iter().enumerate() {
        if text.len() + spec.name.len() > NAMES_BYTES_MAX {
            return format!("{text} and {} more", team.len() - at);
        }
        if at > 0 {
            text.push_str(", ");
        }
        text.push_str(&spec.name);
    }
    text
}

fn tokens(spec: &ToolSpec) -> u64 {
    estimated_tokens(spec.bytes())
}

/// The words of a text or a name, in lower case. Words of one or two letters tell skills apart only by chance.
fn words(text: &str) -> BTreeSet<String> {
    let parts = text.split(|character: char| !character.is_alphanumeric());
    let long = parts.filter(|part| part.chars().count() > 2);
    long.map(str::to_lowercase).collect()
}

/// True where a word has the beginning of another word, or is it.
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

    /// A team with so many skills, of about a hundred tokens each.
    fn offered(count: usize) -> OfferedTools {
        let filler = "It reads files and reports each place. ".repeat(8);
        let tool = |name: &str, description: &str| TeamTool {
            spec: spec(name, description),
            tags: Vec::new(),
        };
        let mut team: Vec<TeamTool> = (0..count.saturating_sub(3))
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

    fn names_of(list: &ToolList) -> Vec<String> {
        list.specs().into_iter().map(|spec| spec.name).collect()
    }

    fn ask(list: &ToolList, arguments: &str) -> ToolResult {
        let call = ToolCall {
            id: "a".to_owned(),
            name: FIND_SKILL.to_owned(),
            arguments: arguments.to_owned(),
        };
        list.answer(&call).expect("it is a call of `find_skill`")
    }

    #[test]
    fn a_few_skills_are_offered_as_they_are() {
        let list = ToolList::new(offered(3), None);
        assert_eq!(
            names_of(&list),
            ["read_file", "write_file", "sql_linter", "licence_headers", "ticket"]
        );
        assert!(
            list.answer(&ToolCall {
                id: "a".to_owned(),
                name: FIND_SKILL.to_owned(),
                arguments: "{}".to_owned(),
            })
            .is_none(),
            "nothing is to be found"
        );
        assert_eq!(names_of(&ToolList::new(offered(0), None)).len(), 5);
    }

    #[test]
    fn the_bound_is_2000_tokens_or_a_tenth_of_the_context() {
        let is_hidden = |count: usize, context_tokens: Option<u64>| {
            let list = ToolList::new(offered(count), context_tokens);
            names_of(&list).contains(&FIND_SKILL.to_owned())
        };
        let each = tokens(&offered(4).team[0].spec);
        let most = usize::try_from(TEAM_TOOLS_TOKENS_MAX / each).expect("it is small");
        assert!(!is_hidden(most - 1, None));
        assert!(is_hidden(most + 1, None));
        assert!(!is_hidden(8, Some(16_384)));
        assert!(is_hidden(8, Some(4_096)));
    }

    #[test]
    fn found_skills_join_the_end_of_the_list() {
        let list = ToolList::new(offered(60), None);
        let before = list.specs();
        assert_eq!(names_of(&list), ["read_file", "write_file", "find_skill"]);
        let answer = ask(&list, r#"{"query": "lint the sql of a migration"}"#);
        assert!(!answer.is_error);
        assert!(
            answer.text.starts_with("`sql_linter` is now in your tools: Checks SQL"),
            "{}",
            answer.text
        );
        let after = list.specs();
        assert_eq!(after[..3], before, "the beginning of the list stays");
        assert_eq!(after[3].name, "sql_linter");
        let again = ask(&list, r#"{"query": "sql_linter"}"#);
        assert!(again.text.starts_with("`sql_linter` is already in your tools"));
        assert_eq!(list.specs(), after);
        ask(&list, r#"{"query": " report_07 "}"#);
        assert_eq!(
            names_of(&list)[3..],
            ["sql_linter", "report_07"],
            "of a name that one alone"
        );
    }

    #[test]
    fn a_search_without_a_match_names_the_skills() {
        let list = ToolList::new(offered(60), None);
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
        assert_eq!(names_of(&list).len(), 3);
    }

    #[test]
    fn found_skills_take_a_bounded_part_of_the_context() {
        let list = ToolList::new(offered(60), Some(4_096));
        for number in 0..57 {
            ask(&list, &json!({"query": format!("report_{number:02}")}).to_string());
        }
        let taken: u64 = list.specs()[3..].iter().map(tokens).sum();
        assert!(taken > 0 && taken <= 4_096 / FOUND_CONTEXT_PART, "{taken}");
        let answer = ask(&list, r#"{"query": "ticket"}"#);
        assert!(answer.text.starts_with("`ticket` has no room"), "{}", answer.text);
    }

    #[test]
    fn a_built_in_schema_has_no_bounds_of_lengths_for_a_model() {
        let mut offered = offered(0);
        offered.builtin[0].parameters = json!({"type": "object", "properties": {
            "minLength": {"type": "string", "minLength": 1, "description": "A property of that name."},
            "paths": {"type": "array", "maxItems": 3, "items": {"type": "string", "maxLength": 9}},
            "limit": {"type": "integer", "minimum": 1}
        }});
        let specs = ToolList::new(offered, None).specs();
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
        let tool = |number: usize| TeamTool {
            spec: spec(&format!("skill_{number}"), ""),
            tags: Vec::new(),
        };
        let many: Vec<TeamTool> = (0..1_000).map(tool).collect();
        let text = names(&many);
        assert!(text.len() < NAMES_BYTES_MAX + 100 && text.ends_with(" more"), "{text}");
    }
}
