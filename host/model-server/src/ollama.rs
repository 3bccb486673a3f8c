//! Ollama's own API beside the compatible one: which model is loaded with which context, and models created from
//! others.
//!
//! The forms come from Ollama's documentation. They were not compared with its server.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Context in tokens of the models themselves. A server loads them with less.
const OWN_CONTEXT_TOKENS: u64 = 131_072;

/// True for a path of Ollama's own API, which the compatible API does not have.
pub(super) fn is_own(path: &str) -> bool {
    matches!(path, "/api/generate" | "/api/show" | "/api/create")
}

/// The models of a server.
#[derive(Debug, Default)]
pub(super) struct OllamaModels {
    /// Context of a model that sets none.
    usual_tokens: u64,
    /// `num_ctx` of each model that sets one.
    models: BTreeMap<String, Option<u64>>,
    loaded: Option<String>,
}

impl OllamaModels {
    pub(super) fn new(names: &[String], usual_tokens: u64) -> Self {
        Self {
            usual_tokens,
            models: names.iter().map(|name| (name.clone(), None)).collect(),
            loaded: None,
        }
    }

    /// Answers a request of Ollama's own API or for the list of models; `None` for any other request. A chat request
    /// loads its model.
    pub(super) fn answer(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let model = body["model"].as_str().unwrap_or_default();
        let missing = || Some((404, json!({"error": format!("model '{model}' not found")})));
        match (method, path) {
            ("GET", "/v1/models") => {
                let entry = |name: &String| json!({"id": name, "object": "model", "created": 1, "owned_by": "library"});
                let data: Vec<Value> = self.models.keys().map(entry).collect();
                Some((200, json!({"object": "list", "data": data})))
            }
            ("GET", "/api/ps") => {
                let entry = |name: &String| json!({"name": name, "model": name, "context_length": self.context(name)});
                let models: Vec<Value> = self.loaded.iter().map(entry).collect();
                Some((200, json!({"models": models})))
            }
            ("POST", "/api/generate" | "/v1/chat/completions" | "/api/show") if !self.models.contains_key(model) => {
                missing()
            }
            ("POST", "/v1/chat/completions") => {
                self.loaded = Some(model.to_owned());
                None
            }
            ("POST", "/api/generate") => {
                self.loaded = Some(model.to_owned());
                Some((
                    200,
                    json!({"model": model, "response": "", "done": true, "done_reason": "load"}),
                ))
            }
            ("POST", "/api/show") => {
                let own = self.models[model].map_or_else(String::new, |tokens| format!("num_ctx    {tokens}\n"));
                Some((
                    200,
                    json!({
                        "parameters": format!("{own}stop    \"<|end|>\""),
                        "model_info": {"general.architecture": "llama", "llama.context_length": OWN_CONTEXT_TOKENS},
                        "capabilities": ["completion", "tools"],
                    }),
                ))
            }
            ("POST", "/api/create") => {
                if !body["from"].as_str().is_some_and(|from| self.models.contains_key(from)) || model.is_empty() {
                    return Some((400, json!({"error": "neither 'from' or 'files' was specified"})));
                }
                self.models
                    .insert(model.to_owned(), body["parameters"]["num_ctx"].as_u64());
                Some((200, json!({"status": "success"})))
            }
            _ => None,
        }
    }

    fn context(&self, name: &str) -> u64 {
        self.models.get(name).copied().flatten().unwrap_or(self.usual_tokens)
    }
}
