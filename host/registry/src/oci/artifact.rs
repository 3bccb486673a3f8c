//! The format of skills in a registry. A component is an artifact that other WebAssembly tools know; signatures have
//! cosign's format.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use oci_client::client::{Config, ImageLayer};
use oci_client::manifest::{OciDescriptor, OciImageManifest};
use serde_json::json;

use super::{Annotations, digest_of};
use tool_skill::signature::Signature;

/// Media type of the configuration of a WebAssembly artifact.
const WASM_CONFIG: &str = "application/vnd.wasm.config.v0+json";
/// Media type of its one layer.
const WASM_LAYER: &str = "application/wasm";
/// Media type of a signed payload.
const SIGNATURE_LAYER: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
/// Media type of the configuration of a signature artifact.
const SIGNATURE_CONFIG: &str = "application/vnd.oci.image.config.v1+json";
/// The annotation that holds a signature.
const SIGNATURE: &str = "dev.cosignproject.cosign/signature";
/// Media type of the manifests.
pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// Description of a component for people who browse a registry. A pulled description is not trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComponentDescription {
    /// Name of the skill.
    pub name: String,
    /// Version of the skill.
    pub version: String,
    /// Purpose of the skill.
    pub description: String,
}

pub(super) struct Artifact {
    pub(super) layers: Vec<ImageLayer>,
    pub(super) config: Config,
    pub(super) manifest: OciImageManifest,
}

/// Builds the artifact of a component. It has no date, so that the same component always has the same digests.
pub(super) fn of_component(component: &[u8], described: &ComponentDescription) -> Artifact {
    let layer = ImageLayer::new(component.to_vec(), WASM_LAYER.to_owned(), None);
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "wasm",
        "os": "wasip2",
        "layerDigests": [digest_of(component)],
    });
    let annotation = |name: &str, value: &str| (format!("org.opencontainers.image.{name}"), value.to_owned());
    let annotations = [
        annotation("title", &described.name),
        annotation("version", &described.version),
        annotation("description", described.description.lines().next().unwrap_or_default()),
    ];
    build_artifact(vec![layer], WASM_CONFIG, config.to_string(), Some(annotations.into()))
}

/// Builds the artifact with the signatures of one component.
pub(super) fn of_signatures(signatures: &[Signature]) -> Artifact {
    let layer = |signature: &Signature| {
        let annotations = [(SIGNATURE.to_owned(), BASE64.encode(signature.signature()))];
        ImageLayer::new(
            signature.payload().to_vec(),
            SIGNATURE_LAYER.to_owned(),
            Some(annotations.into()),
        )
    };
    let layers: Vec<ImageLayer> = signatures.iter().map(layer).collect();
    let ids: Vec<String> = layers.iter().map(|layer| digest_of(&layer.data)).collect();
    let config = json!({
        "created": "1970-01-01T00:00:00Z",
        "architecture": "",
        "os": "",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": ids},
    });
    build_artifact(layers, SIGNATURE_CONFIG, config.to_string(), None)
}

fn build_artifact(layers: Vec<ImageLayer>, kind: &str, config: String, annotations: Option<Annotations>) -> Artifact {
    let config = Config::new(config.into_bytes(), kind.to_owned(), None);
    let manifest = OciImageManifest {
        media_type: Some(MANIFEST.to_owned()),
        ..OciImageManifest::build(&layers, &config, annotations)
    };
    Artifact {
        layers,
        config,
        manifest,
    }
}

/// The only layer of a manifest, which is a component. The error is the end of a sentence.
pub(super) fn component_layer(manifest: &OciImageManifest) -> Result<&OciDescriptor, String> {
    if manifest.config.media_type != WASM_CONFIG {
        return Err(format!(
            "it is a `{}`, not a `{WASM_CONFIG}`",
            manifest.config.media_type
        ));
    }
    match &manifest.layers[..] {
        [layer] if layer.media_type == WASM_LAYER => Ok(layer),
        [layer] => Err(format!("its layer is a `{}`, not a `{WASM_LAYER}`", layer.media_type)),
        layers => Err(format!("it has {} layers, not one", layers.len())),
    }
}

/// The layers with signed payloads, and their signatures. Other layers are skipped.
pub(super) fn signature_layers(manifest: &OciImageManifest) -> impl Iterator<Item = (&OciDescriptor, Vec<u8>)> {
    let layers = manifest.layers.iter();
    layers
        .filter(|layer| layer.media_type == SIGNATURE_LAYER)
        .filter_map(|layer| {
            let signature = layer.annotations.as_ref()?.get(SIGNATURE)?;
            Some((layer, BASE64.decode(signature.trim()).ok()?))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_is_one_layer_and_always_the_same_manifest() {
        let described = ComponentDescription {
            name: "lint".to_owned(),
            version: "1.0.0".to_owned(),
            description: "Lints.\nAt length.".to_owned(),
        };
        let made = || of_component(b"\0asm", &described);
        let manifest = made().manifest;
        assert_eq!(
            serde_json::to_string(&manifest).ok(),
            serde_json::to_string(&made().manifest).ok()
        );
        let layer = component_layer(&manifest).expect("it is one");
        assert_eq!((layer.digest.as_str(), layer.size), (digest_of(b"\0asm").as_str(), 4));
    }

    #[test]
    fn what_is_no_component_is_said() {
        let described = ComponentDescription {
            name: String::new(),
            version: String::new(),
            description: String::new(),
        };
        let mut manifest = of_component(b"", &described).manifest;
        manifest.layers.push(manifest.layers[0].clone());
        assert!(component_layer(&manifest).is_err_and(|told| told == "it has 2 layers, not one"));
        manifest.layers.truncate(1);
        manifest.layers[0].media_type = "text/plain".to_owned();
        assert!(component_layer(&manifest).is_err_and(|told| told.contains("`text/plain`")));
        manifest.config.media_type = SIGNATURE_CONFIG.to_owned();
        assert!(component_layer(&manifest).is_err_and(|told| told.contains(SIGNATURE_CONFIG)));
    }

    #[test]
    fn signatures_come_back_as_they_went() {
        let signatures = [
            Signature::new(b"one".to_vec(), b"1".to_vec()),
            Signature::new(b"two".to_vec(), b"2".to_vec()),
        ];
        let artifact = of_signatures(&signatures);
        let back: Vec<_> = signature_layers(&artifact.manifest).collect();
        assert_eq!(back.len(), 2);
        assert_eq!(
            (back[0].0.digest.as_str(), &back[0].1[..]),
            (digest_of(b"one").as_str(), &b"1"[..])
        );
    }
}
