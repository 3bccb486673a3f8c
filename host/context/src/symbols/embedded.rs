//! Scripts in files of another language: `<script>` of Vue, Svelte and Astro, Astro's frontmatter, and the code of
//! notebooks. Scripts whose name does not show their language.
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
    if extension == "ipynb" {
        let is_other = text.contains("\"language\": \"") && !text.contains("\"language\": \"python\"");
        return (!is_other).then(|| ("script.py".to_owned(), read_cells(text)));
    }
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

/// The Python of a notebook: a line of a code cell is a string on a line of its own, with the same indentation for all.
fn read_cells(text: &str) -> String {
    let mut source = String::with_capacity(text.len());
    let (mut is_code, mut is_source, mut is_magic) = (false, false, false);
    for line in text.split_inclusive('\n') {
        let item = line.trim();
        let string = item
            .trim_end_matches(',')
            .strip_prefix('"')
            .and_then(|rest| rest.strip_suffix('"'));
        match item {
            "\"source\": [" => (is_source, is_magic) = (is_code, false),
            "]" | "]," => is_source = false,
            _ if item.starts_with("\"cell_type\": ") => is_code = item.contains("\"code\""),
            _ => {}
        }
        let Some(string) = string.filter(|_| is_source) else {
            push_blanks(&mut source, line);
            continue;
        };
        // A cell in another language, and a command of IPython.
        is_magic |= string.starts_with("%%") && !["%%time", "%%capture"].iter().any(|one| string.starts_with(one));
        if is_magic || string.trim_start().starts_with(['%', '!', '?']) {
            push_blanks(&mut source, line);
            continue;
        }
        let start = line.len() - line.trim_start().len() + 1;
        push_blanks(&mut source, &line[..start]);
        push_unescaped(&mut source, string);
        push_blanks(&mut source, &line[start + string.len()..]);
    }
    source
}

/// Adds the content of a string of JSON, filled up to the length that it had with its escapes.
fn push_unescaped(source: &mut String, string: &str) {
    let mut rest = string;
    while let Some(at) = rest.find('\\') {
        source.push_str(&rest[..at]);
        let escaped = rest[at + 1..].chars().next();
        let length = escaped.map_or(1, |sign| 1 + if sign == 'u' { 5 } else { sign.len_utf8() });
        let end = rest.floor_char_boundary((at + length).min(rest.len()));
        match escaped {
            Some(sign @ ('"' | '\\' | '/')) => source.extend([' ', sign]),
            _ => push_blanks(source, &rest[at..end]),
        }
        rest = &rest[end..];
    }
    source.push_str(rest);
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

    #[test]
    fn the_code_of_a_notebook_is_python() {
        let text = r##"{
 "cells": [
  {
   "cell_type": "markdown",
   "source": [
    "# def title():\n"
   ]
  },
  {
   "cell_type": "code",
   "outputs": [
    "def shown(): pass"
   ],
   "source": [
    "%matplotlib inline\n",
    "import numpy as np\n",
    "def show(text=\"é\"):\n",
    "    print(\"a\\n\", text)"
   ]
  },
  {
   "cell_type": "code",
   "source": [
    "%%bash\n",
    "import x"
   ]
  }
 ]
}
"##;
        let (path, source) = embedded_source("a.ipynb", text).expect("it holds code");
        assert_eq!((path.as_str(), source.len()), ("script.py", text.len()));
        let code: Vec<&str> = source
            .lines()
            .filter(|line| !line.trim().is_empty())
            .map(str::trim_end)
            .collect();
        assert_eq!(
            code,
            [
                "     import numpy as np",
                "     def show(text= \"é \"):",
                "         print( \"a \\n \", text)"
            ]
        );
        assert_eq!(source.find("import numpy"), text.find("import numpy"));
        assert_eq!(embedded_source("a.ipynb", "\"language\": \"R\""), None);
    }

    proptest::proptest! {
        #[test]
        fn any_text_keeps_its_length_and_its_lines(parts in "(<script|lang=\"ts\"|>|/>|</script>|---|\n|\"|é|a |\\\\|u|\n\"|\"cell_type\": \"code\"\n|\"source\": \\[\n){0,30}") {
            for path in ["a.vue", "a.astro", "a.ipynb"] {
                let (_, source) = embedded_source(path, &parts).expect("its language is known");
                assert_eq!(source.len(), parts.len());
                assert_eq!(source.matches('\n').count(), parts.matches('\n').count());
            }
        }
    }
}
