//! The claims of `docs/src/security-claims.md`: its tables are made from `tests/security/claims.toml`, each attack
//! belongs to a claim, and each test that a claim names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::Deserialize;
use tool_proof::attacks::ATTACKS;
use tool_proof::probes::ATTEMPTS;
use tool_proof::{helpers, installs};

use super::{compare_generated, source_root};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimsFile {
    claim: Vec<Claim>,
}

/// A sentence of the page with its evidence.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claim {
    area: String,
    says: String,
    #[serde(default)]
    attacks: Vec<String>,
    #[serde(default)]
    tests: Vec<String>,
}

fn read_claims() -> Vec<Claim> {
    let text = fs::read_to_string(source_root().join("tests/security/claims.toml")).expect("the claims are there");
    let file: ClaimsFile = toml::from_str(&text).expect("the claims are valid");
    file.claim
}

fn write_names(names: &[String]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

/// One table for each area, in the order of the file.
fn make_tables(claims: &[Claim]) -> String {
    let mut text = String::new();
    let mut area = "";
    for claim in claims {
        if claim.area != area {
            area = &claim.area;
            text.push_str(&format!(
                "\n### Claims: {area}\n\n| claim | attacks | tests |\n|---|---|---|\n"
            ));
        }
        let says = claim.says.split_whitespace().collect::<Vec<_>>().join(" ");
        let (attacks, tests) = (write_names(&claim.attacks), write_names(&claim.tests));
        text.push_str(&format!("| {says} | {attacks} | {tests} |\n"));
    }
    text
}

#[test]
fn the_tables_of_claims_are_made_from_the_data() {
    compare_generated("docs/src/security-claims.md", "claims", &make_tables(&read_claims()));
}

#[test]
fn every_attack_belongs_to_a_claim() {
    let attacks = ATTACKS.iter().map(|attack| attack.name);
    let probes = ATTEMPTS.iter().map(|attempt| attempt.name);
    let helpers = helpers::ATTEMPTS.iter().map(|attempt| attempt.name);
    let installs = installs::ATTEMPTS.iter().map(|attempt| attempt.name);
    let known: BTreeSet<&str> = attacks.chain(probes).chain(helpers).chain(installs).collect();
    let claims = read_claims();
    let named = claims.iter().flat_map(|claim| &claim.attacks).map(String::as_str);
    assert_eq!(named.collect::<BTreeSet<_>>(), known);
}

fn collect_tests(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it can be listed").path();
        if path.is_dir() {
            collect_tests(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            let functions = text.split("fn ").skip(1);
            names.extend(functions.filter_map(|rest| Some(rest.split_once('(')?.0.to_owned())));
        }
    }
}

#[test]
fn every_claim_names_an_attack_or_a_test_and_each_test_is_there() {
    let mut known = BTreeSet::new();
    for folder in ["cli/src", "host", "tests"] {
        collect_tests(&source_root().join(folder), &mut known);
    }
    for claim in read_claims() {
        let has_evidence = !claim.attacks.is_empty() || !claim.tests.is_empty();
        assert!(has_evidence, "nothing shows this claim: {}", claim.says);
        for test in &claim.tests {
            assert!(known.contains(test), "there is no test `{test}`");
        }
    }
}
