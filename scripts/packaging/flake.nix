{
  description = "@SUMMARY@";

  inputs.nixpkgs.url = "nixpkgs";

  outputs = { self, nixpkgs }:
    let
      # The archives lie beside this file.
      archives = {
        x86_64-linux = { path = ./tool-@VERSION@-x86_64-linux.tar.xz; sha256 = "@SHA256_X86_64@"; };
        aarch64-linux = { path = ./tool-@VERSION@-aarch64-linux.tar.xz; sha256 = "@SHA256_AARCH64@"; };
      };
      package = system: archive:
        nixpkgs.legacyPackages.${system}.stdenvNoCC.mkDerivation {
          pname = "tool";
          version = "@VERSION@";
          src = builtins.path { inherit (archive) path sha256; recursive = false; };
          dontConfigure = true;
          dontBuild = true;
          dontStrip = true;
          installPhase = ''
            install -D tool $out/bin/tool
            install -D -t $out/share/man/man1 man/*.1
            install -D completions/tool $out/share/bash-completion/completions/tool
            install -D completions/_tool $out/share/zsh/site-functions/_tool
            install -D completions/tool.fish $out/share/fish/vendor_completions.d/tool.fish
            install -D LICENSES.txt $out/share/doc/tool/LICENSES.txt
          '';
        };
    in
    {
      packages = builtins.mapAttrs (system: archive: { default = package system archive; }) archives;
    };
}
