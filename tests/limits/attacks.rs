//! Bounds that somebody hostile meets are met by an attack that is really made, not by a test that only names them.

use std::collections::{BTreeMap, BTreeSet};

use host::skill::Limits;
use regex::Regex;
use tool_proof::attacks::{ATTACKS, Attack};
use tool_proof::{helpers, probes};

use super::{LIMITS, named, part, rows};

/// True for a test that compares what the engine asks for with the constant, and meets no bound.
fn is_equality(test: &str) -> bool {
    test.ends_with("_are_those_of_limits") || test.ends_with("_have_the_bounds_of_limits")
}

fn names(name: &str) -> BTreeSet<String> {
    part(name).keys().cloned().collect()
}

/// The bounds of calls as they are written, by their names.
fn bounds(limits: Limits) -> BTreeMap<String, String> {
    let text = format!("{limits:#?}");
    let fields = text
        .lines()
        .filter_map(|line| line.trim().trim_end_matches(',').split_once(": "));
    fields
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}

/// The bounds of calls that an attack makes smaller.
fn lowered(attack: &Attack) -> BTreeSet<String> {
    let mut limits = Limits::default();
    (attack.bounds)(&mut limits);
    let (before, after) = (bounds(Limits::default()), bounds(limits));
    before
        .into_iter()
        .filter(|(name, value)| after[name] != *value)
        .map(|(name, _)| name)
        .collect()
}

/// True for an attack of one of the three tables.
fn is_attack(name: &str) -> bool {
    let attacks = ATTACKS.iter().map(|attack| attack.name);
    let escapes = probes::ATTEMPTS.iter().map(|attempt| attempt.name);
    let helpers = helpers::ATTEMPTS.iter().map(|attempt| attempt.name);
    attacks.chain(escapes).chain(helpers).any(|known| known == name)
}

#[test]
fn every_bound_of_a_call_is_met_by_an_attack_or_says_why_not() {
    let equality = named("the_bounds_of_calls_are_those_of_limits").expect("it is there");
    let pair =
        Regex::new(r"\(bounds\.(?P<field>\w+)(?: as u64)?, limits::(?P<limit>\w+)(?: as u64)?\)").expect("a constant");
    let fields: BTreeMap<&str, &str> = pair
        .captures_iter(&equality.text)
        .filter_map(|found| Some((found.name("limit")?.as_str(), found.name("field")?.as_str())))
        .collect();
    assert_eq!(
        fields.len(),
        bounds(Limits::default()).len(),
        "each bound of a call is one of limits"
    );
    let attacks = part("attacks");
    let told = names("unattacked");
    for (limit, field) in &fields {
        let row = attacks.get(*limit);
        assert!(
            row.is_some() != told.contains(*limit),
            "{limit}: an attack, or why there is none"
        );
        if let Some(lowers) = row.and_then(|row| row["lowers"].as_str()) {
            assert_eq!(lowers, *field, "{limit} is another bound");
        }
    }
    let strange: Vec<&String> = told
        .iter()
        .filter(|limit| !fields.contains_key(limit.as_str()))
        .collect();
    assert!(strange.is_empty(), "no bounds of a call: {strange:?}");
}

#[test]
fn every_attack_that_a_bound_names_is_made_on_it() {
    for (limit, row) in part("attacks") {
        assert!(LIMITS.contains(&format!("pub const {limit}:")), "there is no `{limit}`");
        let name = row["attack"].as_str().expect("a name");
        assert!(is_attack(name), "{limit}: there is no attack `{name}`");
        if let Some(lowers) = row["lowers"].as_str() {
            let attack = ATTACKS
                .iter()
                .find(|attack| attack.name == name)
                .expect("an attack on a call");
            assert!(
                lowered(attack).contains(lowers),
                "{limit}: `{name}` does not lower `{lowers}`"
            );
        }
    }
}

#[test]
fn an_equality_alone_proves_no_bound() {
    let (attacks, told) = (names("attacks"), names("equalities"));
    let mut alone = BTreeSet::new();
    for row in rows("bounds").into_iter().chain(rows("choices")) {
        let is_alone = row.tests.iter().all(|test| is_equality(test));
        if is_alone && !attacks.contains(&row.name) {
            alone.insert(row.name);
        }
    }
    assert_eq!(alone, told, "bounds of which only an equality is shown");
}
