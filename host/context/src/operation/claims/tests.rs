use proptest::prelude::*;

use super::*;
use crate::operation::citations::{Citation, parse};

/// The claims of each citation of a text, as one line a citation.
fn shown(text: &str) -> String {
    let (citations, _) = parse(text);
    let claims = claims_of(text, &citations, &|_| false);
    let line = |(citation, claims): (&Citation, CitedClaims)| {
        let named: Vec<String> = claims.claims.iter().map(|claim| format!("{claim:?}")).collect();
        let denial = if claims.is_denial { " (denied)" } else { "" };
        let defined: Vec<&str> = claims.defined.iter().map(CitedClaim::text).collect();
        let defined = match defined[..] {
            [] => String::new(),
            _ => format!(" (defined: {})", defined.join(" ")),
        };
        format!("{citation}: {}{denial}{defined}", named.join(", "))
    };
    citations.iter().zip(claims).map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_sentence_claims_names_numbers_quotations_and_routes() {
    insta::assert_snapshot!(
        shown(
            "The class `Command` runs (src/a.py:1). It waits 30 seconds in src/a.py:2, raises \"no such file\" at \
             src/a.py:3 and calls read_token() from src/a.py:4. See `src/core.py` and src/a.py:5.\n\n\
             - `Shop.open(name)` — src/a.py:6\n- The limit is 1,000: src/a.py:7 and src/a.py:8\n\
             - It has 3 parts: src/a.py:9\n\nIn src/a.py:10, parseHeader reads the rest.\n\n\
             It has `Shop.JSON` (src/a.py:11) and `Shop.TOML` (src/a.py:12).\n\n\
             `GET /users/{id}` (src/a.py:13), `/robots.txt` (src/a.py:14), the handler(s) of `and/or` (src/a.py:15)."
        ),
        @r#"
        src/a.py:1: Symbol("Command")
        src/a.py:2: Number("30")
        src/a.py:3: Quotation("no such file")
        src/a.py:4: Symbol("read_token")
        src/a.py:5: 
        src/a.py:6: Symbol("open")
        src/a.py:7: Number("1000")
        src/a.py:8: Number("1000")
        src/a.py:9: 
        src/a.py:10: Symbol("parseHeader")
        src/a.py:11: Symbol("JSON")
        src/a.py:12: Symbol("TOML")
        src/a.py:13: Route("/users/{id}")
        src/a.py:14: 
        src/a.py:15:
        "#
    );
}

#[test]
fn a_claim_belongs_to_the_citation_that_it_is_tied_to() {
    insta::assert_snapshot!(
        shown(
            "`src/a.py:1` defines `Cart` and `Item`. In `src/a.py:2`, `Cart` is defined.\n\n\
             src/a.py:3 (`Cart`), src/a.py:4 (`price_of`), lib/helper.py:1 (`total`)\n\n\
             src/a.py:5 defines `Cart` and src/a.py:6 holds `price_of`.\n\n\
             See src/a.py:7 and `price_of` in src/a.py:8.\n\n\
             `Shop` keeps src/a.py:9 (`Cart`) and `Item` does not call `total` in `src/a.py:10, 12`.\n\n\
             `Cart`, `Item` and `Wagon` are all defined in [src/a.py:13](src/a.py#L13).\n\n\
             In src/a.py:14, `Cart` is sold, and in src/b.py:3, `Wagon`.\n\n\
             | `Cart` | src/a.py:15 | src/b.py:4 | `Item` and `Wagon` |\n\
             | `core` | 14 | 120 kB | it waits 30 seconds (src/a.py:16) |"
        ),
        @r#"
        src/a.py:1: Symbol("Cart"), Symbol("Item") (defined: Cart Item)
        src/a.py:2: Symbol("Cart")
        src/a.py:3: Symbol("Cart")
        src/a.py:4: Symbol("price_of")
        lib/helper.py:1: Symbol("total")
        src/a.py:5: Symbol("Cart") (defined: Cart)
        src/a.py:6: Symbol("price_of")
        src/a.py:7: 
        src/a.py:8: Symbol("price_of")
        src/a.py:9: Symbol("Cart")
        src/a.py:10: Symbol("Item"), Symbol("total") (denied)
        src/a.py:12: Symbol("Item"), Symbol("total") (denied)
        src/a.py:13: Symbol("Cart"), Symbol("Item"), Symbol("Wagon") (defined: Cart Item Wagon)
        src/a.py:13: Symbol("Cart"), Symbol("Item"), Symbol("Wagon") (defined: Cart Item Wagon)
        src/a.py:14: 
        src/b.py:3: Symbol("Wagon")
        src/a.py:15: Symbol("Cart")
        src/b.py:4: Symbol("Item"), Symbol("Wagon")
        src/a.py:16: Symbol("core"), Number("30")
        "#
    );
}

#[test]
fn lines_support_a_claim_that_they_contain_whole() {
    let lines =
        CitedText::new(b"def open_all(self):\n    limit = 1_000\n    raise  Error(\"x\")\n    get('/a/b/', 'c/<d>')\n");
    for (claim, expected) in [
        (CitedClaim::Symbol("open_all".to_owned()), ClaimEvidence::InLines),
        (CitedClaim::Symbol("open".to_owned()), ClaimEvidence::Missing),
        (CitedClaim::Symbol("shop".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Number("1000".to_owned()), ClaimEvidence::InLines),
        (CitedClaim::Number("100".to_owned()), ClaimEvidence::Missing),
        (CitedClaim::Quotation("raise Error(".to_owned()), ClaimEvidence::InLines),
        (
            CitedClaim::Quotation("raise Problem".to_owned()),
            ClaimEvidence::Missing,
        ),
        (
            CitedClaim::Quotation("limit = 2_000".to_owned()),
            ClaimEvidence::Missing,
        ),
        (CitedClaim::Quotation("my-app".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Route("/a/b".to_owned()), ClaimEvidence::InLines),
        (CitedClaim::Route("/c/<d>".to_owned()), ClaimEvidence::InLines),
        (CitedClaim::Route("/a".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Route("/b".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Route("/shop/<d>".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Route("/<id>".to_owned()), ClaimEvidence::Partial),
        (CitedClaim::Route("/e/<d>".to_owned()), ClaimEvidence::Missing),
    ] {
        assert_eq!(lines.evidence(&claim, "my-app/shop.py"), expected, "{claim:?}");
    }
    let name = CitedText::new(b"[dependencies.base64]\n");
    let package = CitedClaim::Quotation("base64 0.22".to_owned());
    assert_eq!(name.evidence(&package, "Cargo.toml"), ClaimEvidence::Partial);
}

#[test]
fn lines_of_a_code_block_are_no_sentence_together() {
    insta::assert_snapshot!(
        shown(
            "```mermaid\ngraph LR\n  n1[\"top level (src/a.js:5)\"]\n  n2[\"readPrice (src/b.js:3)\"]\n  \
             n3([\"7 callers\"])\n  n41[\"readCart (src/b.js:4)\"] --> n42[\"readItem (src/b.js:5)\"]\n```\n\n\
             The class `Cart`\nis in src/a.js:7."
        ),
        @r#"
        src/a.js:5: 
        src/b.js:3: Symbol("readPrice")
        src/b.js:4: Symbol("readCart")
        src/b.js:5: Symbol("readItem")
        src/a.js:7: Symbol("Cart")
        "#
    );
}

#[test]
fn a_long_text_without_an_end_is_read_only_near_the_citation() {
    let text = format!("`Far` {} src/a.py:1", "word ".repeat(10_000));
    assert_eq!(shown(&text), "src/a.py:1: ");
}

proptest! {
    #[test]
    fn each_citation_of_any_text_gets_its_claims(
        text in "(src/a\\.py:1|`|\"|\u{201c}|\u{e9}|\\(|\\)|\\||, |\\. |\n| and |/x|Cart|`Cart`|12| is defined in ){0,40}"
    ) {
        let (citations, _) = parse(&text);
        prop_assert_eq!(claims_of(&text, &citations, &|_| false).len(), citations.len());
    }
}
