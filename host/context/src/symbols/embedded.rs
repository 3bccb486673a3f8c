//! Scripts in files of another language: `<script>` of Vue, Svelte and Astro, and Astro's frontmatter. Scripts whose
//! name does not show their language.
//!
//! Everything else becomes blanks, so that each byte keeps its offset and each line its number.

use std::ops::Range;

use tool_repository::file_role::{file_name, implied_extension};

/// The scripts in a file, and a path that names their language; `None` for files that hold no other language.
pub fn embedded_source(path: &str, text: &str) -> Option<(String, String)> {
    if let Some(extension) = implied_extension(path, text) {
        return Some((format!("script.{extension}"), text.to_owned()));
    }
    let (_, extension) = file_name(path).rsplit_once('.')?;
    if !matches!(extension, "vue" | "svelte" | "astro") {
        return None;
    }
    let mut is_typed = extension == "astro";
    let mut scripts: Vec<Range<usize>> = find_frontmatter(text).filter(|_| is_typed).into_iter().collect();
    let mut at = scripts.last().map_or(0, |front| front.end);
    while let Some(tag) = text[at..].find("<script").map(|found| at + found + "<script".len()) {
        let Some(head) = find_tag_end(&text[tag..]).map(|end| &text[tag..tag + end]) else {
            break;
        };
        let start = tag + head.len() + 1;
        if head.ends_with('/') {
            at = start;
            continue;
        }
        at = text[start..].find("</script").map_or(text.len(), |end| start + end);
        is_typed |= head.contains("lang=\"ts") || head.contains("lang='ts");
        scripts.push(start..at);
    }
    let mut source = String::with_capacity(text.len());
    let mut copied = 0;
    for script in scripts {
        push_blanks(&mut source, &text[copied..script.start]);
        source.push_str(&text[script.clone()]);
        copied = script.end;
    }
    push_blanks(&mut source, &text[copied..]);
    let path = if is_typed { "script.ts" } else { "script.js" };
    Some((path.to_owned(), source))
}

/// The lines between `---` at the beginning of a file.
fn find_frontmatter(text: &str) -> Option<Range<usize>> {
    let start = text.len() - text.trim_start().strip_prefix("---")?.len();
    let end = text[start..].find("\n---")?;
    Some(start..start + end)
}

/// The offset of `>`, outside of quotes: `generic="T extends Row<Key>"`.
fn find_tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    text.find(|sign| match quote {
        Some(open) => {
            quote = quote.filter(|_| sign != open);
            false
        }
        None if matches!(sign, '"' | '\'') => {
            quote = Some(sign);
            false
        }
        None => sign == '>',
    })
}

fn push_blanks(source: &mut String, text: &str) {
    source.extend(text.bytes().map(|byte| if byte == b'\n' { '\n' } else { ' ' }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_keep_their_places_and_the_rest_is_blank() {
        let vue = "<template>\n<p>é {{ a }}</p>\n</template>\n<script setup lang=\"ts\" generic=\"T extends R<K>\">\nimport X from './X.vue'\n</script>\n\
                   <script src=\"./b.js\" />\n<style>p { }</style>\n";
        let (path, source) = embedded_source("src/App.vue", vue).expect("it holds a script");
        assert_eq!((path.as_str(), source.len()), ("script.ts", vue.len()));
        assert_eq!(source.trim(), "import X from './X.vue'");
        assert_eq!(source.find("import"), vue.find("import"));
        let (path, source) = embedded_source("a.svelte", "<script>\nlet a = 1;").expect("it may hold a script");
        assert_eq!((path.as_str(), source.trim()), ("script.js", "let a = 1;"));
        assert_eq!(embedded_source("a.ts", vue), None);
    }

    #[test]
    fn a_script_without_an_extension_is_read_in_its_language() {
        let text = "#!/usr/bin/env bash\nrun() { :; }\n";
        let as_shell = Some(("script.sh".to_owned(), text.to_owned()));
        assert_eq!(embedded_source("bin/run", text), as_shell);
        assert_eq!(embedded_source("bin/run", "run() { :; }\n"), None);
        assert_eq!(
            embedded_source("Gemfile", "").map(|(path, _)| path),
            Some("script.rb".to_owned())
        );
    }

    #[test]
    fn the_frontmatter_of_astro_is_a_script() {
        let text = "---\nimport Card from '../Card.astro';\n---\n<Card />\n<script>\nstart();\n</script>\n";
        let (path, source) = embedded_source("src/pages/index.astro", text).expect("it holds scripts");
        let lines: Vec<&str> = source.split_whitespace().collect();
        assert_eq!(path, "script.ts");
        assert_eq!(lines, ["import", "Card", "from", "'../Card.astro';", "start();"]);
    }

    proptest::proptest! {
        #[test]
        fn any_text_keeps_its_length_and_its_lines(parts in "(<script|lang=\"ts\"|>|/>|</script>|---|\n|\"|é|a ){0,30}") {
            for path in ["a.vue", "a.astro"] {
                let (_, source) = embedded_source(path, &parts).expect("its language is known");
                assert_eq!(source.len(), parts.len());
                assert_eq!(source.matches('\n').count(), parts.matches('\n').count());
            }
        }
    }
}
