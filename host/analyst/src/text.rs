//! Text helpers of the analyst.

/// Cuts a text at the end of a word, and marks the cut.
pub(super) fn cut_text(text: &str, characters_max: usize) -> String {
    if text.chars().count() <= characters_max {
        return text.to_owned();
    }
    let cut: String = text.chars().take(characters_max).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{} …", &cut[..end])
}

/// Returns the first sentence of a paragraph.
pub(super) fn first_sentence(paragraph: &str) -> &str {
    const ABBREVIATIONS: [&str; 6] = ["e.g.", "i.e.", "etc.", "vs.", "cf.", "approx."];
    let ends = paragraph.match_indices(['.', '!', '?']).map(|(at, _)| at + 1);
    ends.into_iter()
        .find(|&end| {
            let follows = paragraph[end..].chars().next();
            let sentence = &paragraph[..end];
            follows.is_some_and(char::is_whitespace)
                && !ABBREVIATIONS
                    .iter()
                    .any(|abbreviation| sentence.ends_with(abbreviation))
        })
        .map_or(paragraph, |end| &paragraph[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_ends_before_a_space_and_not_at_an_abbreviation() {
        assert_eq!(
            first_sentence("Reads a.b files, e.g. c. And more."),
            "Reads a.b files, e.g. c."
        );
        assert_eq!(first_sentence("No end"), "No end");
    }
}
