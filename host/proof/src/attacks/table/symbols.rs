//! Attacks by way of the parser and the search. The arena's parser shows every file that the boundary lets it open.

use super::super::{Attack, AttackGoal, GuestRequest};
use super::{flood, last, propose};

pub(super) const ATTACKS: &[Attack] = &[
    propose(
        "outline_hidden_file",
        "see a hidden file as an outline",
        &[GuestRequest::at("outline", ".netrc")],
    ),
    propose(
        "outline_key",
        "see a private key under a harmless name as an outline",
        &[GuestRequest::at("outline", "notes.txt")],
    ),
    propose(
        "uses_through_link",
        "see the names of a hidden file through a link",
        &[GuestRequest::at("uses", "to-hidden")],
    ),
    propose(
        "definitions_beneath_git",
        "look for definitions in git's directory",
        &[GuestRequest::at("definitions", ".git").to("SECRET")],
    ),
    flood(
        "references_outside",
        "look for references outside of the repository",
        &[GuestRequest::at("references", "../outside").to("SECRET")],
        "invalid-arguments",
    ),
    propose(
        "symbols_without_grant",
        "see an outline without the grant",
        &[GuestRequest::at("outline", "src/main.rs")],
    )
    .without(&["read-repository"])
    .wants(AttackGoal::Text("fn main")),
    last(
        "endless_references",
        "look for references for ever",
        &[GuestRequest::new("references-for-ever").to("main")],
    ),
    propose(
        "candidates_beneath_git",
        "learn the names of files in git's directory from a search",
        &[GuestRequest::at("candidates", ".git").to("SECRET")],
    )
    .wants(AttackGoal::Text("config")),
    flood(
        "candidates_outside",
        "learn the names of files outside of the repository from a search",
        &[GuestRequest::at("candidates", "../outside").to("SECRET")],
        "invalid-arguments",
    )
    .wants(AttackGoal::Text("secret")),
    propose(
        "candidates_without_grant",
        "learn names from a search without the grant",
        &[GuestRequest::new("candidates").to("main")],
    )
    .without(&["read-repository"])
    .wants(AttackGoal::Text("README")),
    Attack::calls(
        "search_hidden",
        "read hidden files by a search for what they hold",
        &[GuestRequest::at("search-all", "*").to("SECRET")],
    ),
    propose(
        "search_without_grant",
        "read files by a search without the grant",
        &[GuestRequest::at("search-all", "*").to("main")],
    )
    .without(&["read-repository"])
    .wants(AttackGoal::Text("README")),
    last(
        "endless_search",
        "search and read for ever",
        &[GuestRequest::at("search-all-for-ever", "*").to("main")],
    ),
    last(
        "endless_candidates",
        "search for ever",
        &[GuestRequest::new("candidates-for-ever").to("main")],
    ),
];
