//! Literal arguments of a call, read without running anything: what `setup(install_requires=[…])` says.

use tree_sitter::Node;

use crate::{Descent, Module, walk};

/// Nesting that is read; a manifest has two levels.
const DEPTH_MAX: usize = 4;

/// A value as far as it is written out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Literal {
    /// A string, without its quotes, with the line of its beginning.
    Text(String, usize),
    /// A list or a tuple.
    List(Vec<Literal>),
    /// A dictionary with string keys.
    Map(Vec<(String, Literal)>),
    /// Anything that would have to be computed, with its line.
    Computed(usize),
}

/// A keyword argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// The keyword.
    pub name: String,
    /// Its value; a name that the module assigns a literal to is followed.
    pub value: Literal,
}

impl Module<'_> {
    /// The keyword arguments of every call of `function`, also as `module.function`.
    pub fn keyword_arguments(&self, function: &str) -> Vec<Argument> {
        let mut arguments = Vec::new();
        walk(&self.tree, |node| {
            if node.kind() != "call" || !self.calls_function(node, function) {
                return Descent::Into;
            }
            if let Some(list) = node.child_by_field_name("arguments") {
                let mut cursor = list.walk();
                for argument in list
                    .named_children(&mut cursor)
                    .filter(|child| child.kind() == "keyword_argument")
                {
                    let (Some(name), Some(value)) = (
                        argument.child_by_field_name("name"),
                        argument.child_by_field_name("value"),
                    ) else {
                        continue;
                    };
                    arguments.push(Argument {
                        name: self.text(name),
                        value: self.literal(value, DEPTH_MAX),
                    });
                }
            }
            Descent::Over
        });
        arguments
    }

    fn calls_function(&self, call: Node<'_>, function: &str) -> bool {
        let Some(called) = call.child_by_field_name("function") else {
            return false;
        };
        let name = called.child_by_field_name("attribute").unwrap_or(called);
        self.source[name.byte_range()] == *function.as_bytes()
    }

    fn literal(&self, node: Node<'_>, depth: usize) -> Literal {
        let line = node.start_position().row + 1;
        let Some(depth) = depth.checked_sub(1) else {
            return Literal::Computed(line);
        };
        let children = |node: Node<'_>| {
            let mut cursor = node.walk();
            let all: Vec<Literal> = node
                .named_children(&mut cursor)
                .filter(|child| child.kind() != "comment")
                .map(|child| self.literal(child, depth))
                .collect();
            all
        };
        match node.kind() {
            "string" => self
                .plain_string(node)
                .map_or(Literal::Computed(line), |text| Literal::Text(text, line)),
            "concatenated_string" => {
                let parts: Option<Vec<String>> = children(node)
                    .into_iter()
                    .map(|part| match part {
                        Literal::Text(text, _) => Some(text),
                        _ => None,
                    })
                    .collect();
                parts.map_or(Literal::Computed(line), |parts| Literal::Text(parts.concat(), line))
            }
            "list" | "tuple" | "set" => Literal::List(children(node)),
            "parenthesized_expression" => node
                .named_child(0)
                .map_or(Literal::Computed(line), |inner| self.literal(inner, depth)),
            "dictionary" => self.map(node, depth),
            "identifier" => self
                .assigned(&self.text(node))
                .map_or(Literal::Computed(line), |value| self.literal(value, depth)),
            _ => Literal::Computed(line),
        }
    }

    fn map(&self, node: Node<'_>, depth: usize) -> Literal {
        let mut cursor = node.walk();
        let pairs = node.named_children(&mut cursor).filter(|child| child.kind() == "pair");
        Literal::Map(
            pairs
                .filter_map(|pair| {
                    let key = self.plain_string(pair.child_by_field_name("key")?)?;
                    Some((key, self.literal(pair.child_by_field_name("value")?, depth)))
                })
                .collect(),
        )
    }

    /// The content of a string that has nothing to compute in it.
    fn plain_string(&self, node: Node<'_>) -> Option<String> {
        let mut cursor = node.walk();
        if node.kind() != "string"
            || node
                .named_children(&mut cursor)
                .any(|child| child.kind() == "interpolation")
        {
            return None;
        }
        Some(self.content(node))
    }

    /// The last value that the module's own body assigns to a name.
    fn assigned(&self, name: &str) -> Option<Node<'_>> {
        let mut value = None;
        walk(&self.tree, |node| match node.kind() {
            "module" | "expression_statement" => Descent::Into,
            "assignment" => {
                let left = node.child_by_field_name("left");
                if left.is_some_and(|left| self.source[left.byte_range()] == *name.as_bytes()) {
                    value = node.child_by_field_name("right").or(value);
                }
                Descent::Over
            }
            _ => Descent::Over,
        });
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_out_is_read_and_the_rest_is_not_guessed() {
        let source = b"from setuptools import setup\nREQUIRES = [\n    'a>=1',  # why\n    'b'\n]\nsetuptools.setup(\n    \
            name='demo',\n    version=read(),\n    install_requires=REQUIRES,\n    extras_require={'x': ['c' '>=2', f'{d}']},\n)\n";
        let module = Module::parse(source).expect("it is short");
        let text = |text: &str, line| Literal::Text(text.to_owned(), line);
        let argument = |name: &str, value| Argument {
            name: name.to_owned(),
            value,
        };
        assert_eq!(
            module.keyword_arguments("setup"),
            [
                argument("name", text("demo", 7)),
                argument("version", Literal::Computed(8)),
                argument("install_requires", Literal::List(vec![text("a>=1", 3), text("b", 4)])),
                argument(
                    "extras_require",
                    Literal::Map(vec![(
                        "x".to_owned(),
                        Literal::List(vec![text("c>=2", 10), Literal::Computed(10)])
                    )])
                ),
            ]
        );
    }

    #[test]
    fn names_that_stand_for_themselves_end() {
        let module = Module::parse(b"A = A\nsetup(install_requires=A)\n").expect("it is short");
        assert_eq!(module.keyword_arguments("setup")[0].value, Literal::Computed(1));
    }
}
