//! The limits in the book are those of the code.

use host::user_limits::USER_LIMITS;

use super::compare_generated;

/// One table for each area, in the order of the code.
fn make_tables() -> String {
    let mut text = String::new();
    let mut area = "";
    for limit in USER_LIMITS {
        if limit.area != area {
            area = limit.area;
            text.push_str(&format!(
                "\n### {area}\n\n| limit | value | at the limit |\n|---|---|---|\n"
            ));
        }
        text.push_str(&format!("| {} | {} | {} |\n", limit.name, limit.value, limit.note));
    }
    text
}

#[test]
fn the_limits_in_the_book_are_those_of_the_code() {
    compare_generated("docs/src/limits.md", "limits", &make_tables());
}
