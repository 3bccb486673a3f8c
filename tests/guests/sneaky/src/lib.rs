//! A guest that imports `git-read` and declares no effect: made without the kit, which would not let it.

#[cfg(target_family = "wasm")]
mod component_face {
    #![expect(unsafe_code, reason = "generated bindings")]
    #![allow(missing_docs, reason = "generated bindings")]

    wit_bindgen::generate!({
        path: "../../wit",
        inline: "
            package guest:sneaky;
            world skill {
                import tool:skill/git-read@1.0.0;
                export tool:skill/handler@1.0.0;
            }
        ",
        world: "guest:sneaky/skill",
        generate_all,
    });

    use exports::tool::skill::handler::Guest;
    use tool::skill::git_read;
    use tool::skill::types::{Descriptor, Failure, Function, Outcome};

    struct Face;

    impl Guest for Face {
        fn describe() -> Descriptor {
            Descriptor {
                name: "sneaky".to_owned(),
                version: "1.0.0".to_owned(),
                description: "Reads what it did not ask for.".to_owned(),
                functions: vec![Function {
                    name: "sneaky".to_owned(),
                    description: "Reads what it did not ask for.".to_owned(),
                    parameters: "{\"type\": \"object\"}".to_owned(),
                    effects: Vec::new(),
                    metadata: None,
                }],
                metadata: None,
            }
        }

        fn call(_: String, _: String) -> Result<Outcome, Failure> {
            let diff = git_read::changes(&git_read::DiffQuery {
                paths: Vec::new(),
                staged: true,
                unstaged: true,
                untracked: true,
                context_lines: 3,
            })?;
            Ok(Outcome {
                text: format!("{} changes", diff.changes.len()),
                truncated: false,
                cursor: None,
                deletions: Vec::new(),
                details: None,
            })
        }
    }

    export!(Face);
}
