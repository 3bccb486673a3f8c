class Tool < Formula
  desc "@SUMMARY@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  # The archives lie beside this file, or at the address that HOMEBREW_TOOL_RELEASE names.
  release = ENV.fetch("HOMEBREW_TOOL_RELEASE", "file://#{File.expand_path(__dir__ || ".")}")

  on_linux do
    on_intel do
      url "#{release}/tool-@VERSION@-x86_64-linux.tar.xz"
      sha256 "@SHA256_X86_64@"
    end
    on_arm do
      url "#{release}/tool-@VERSION@-aarch64-linux.tar.xz"
      sha256 "@SHA256_AARCH64@"
    end
  end

  def install
    bin.install "tool"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/tool"
    zsh_completion.install "completions/_tool"
    fish_completion.install "completions/tool.fish"
    doc.install "LICENSES.txt"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/tool --version")
  end
end
