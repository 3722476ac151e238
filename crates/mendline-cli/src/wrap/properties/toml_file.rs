//! Generator of TOML files: entries as tables, inline, and dotted.

use fastrand::Rng;

/// A generator of TOML files.
pub(super) struct TomlFile {
    rng: Rng,
}

impl TomlFile {
    pub(super) fn new(rng: Rng) -> TomlFile {
        TomlFile { rng }
    }

    /// Generates a file.
    pub(super) fn written(mut self) -> String {
        let newline = if self.rng.u8(..4) == 0 { "\r\n" } else { "\n" };
        let mut text = String::new();
        if self.rng.bool() {
            text += "# größe\nmodel = \"o\" # why\n\n";
        }
        if self.rng.u8(..4) == 0 {
            text += "[mcp_servers]\n";
            let inline = self.inline();
            text += &format!("inline = {inline}\n\n");
        }
        for number in 0..self.rng.usize(1..4) {
            text += &self.server(number);
        }
        if self.rng.bool() {
            text += "[projects.\"/home/ü\"]\ntrust_level = \"trusted\"";
        }
        text.replace('\n', newline)
    }

    fn server(&mut self, number: usize) -> String {
        let name = ["git", "\"a b\"", "'x.y'", "no-tes"][self.rng.usize(..4)];
        let name = if name.starts_with(['"', '\'']) {
            name.replacen(['"', '\''], &format!("{}{number}", &name[..1]), 1)
        } else {
            format!("{name}{number}")
        };
        let mut lines = Vec::new();
        let mut tables = String::new();
        match self.rng.u8(..6) {
            0..=2 => self.command(&name, &mut lines, &mut tables),
            3..=4 => self.url(&name, &mut lines, &mut tables),
            _ => self.mcp_remote(&name, &mut lines, &mut tables),
        }
        for other in ["enabled = true", "startup_timeout_sec = 2.5", "enabled_tools = [\n  \"a\", # b\n]"] {
            if self.rng.u8(..4) == 0 {
                let at = self.rng.usize(..=lines.len());
                lines.insert(at, other.to_owned());
            }
        }
        let indent = if self.rng.u8(..5) == 0 { "  " } else { "" };
        let mut text = format!("[mcp_servers.{name}]{}\n", self.comment());
        for line in lines {
            if self.rng.u8(..8) == 0 {
                text += "# a = b\n\n";
            }
            text += &format!("{indent}{line}{}\n", self.comment());
        }
        text + &tables + ["", "\n"][self.rng.usize(..2)]
    }

    fn comment(&mut self) -> &'static str {
        ["", "", "", " # it's [x]", "   "][self.rng.usize(..5)]
    }

    fn command(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        let program = ["\"npx\"", "'C:\\x.exe'", "\"\"\"\nnode\"\"\"", "\"\\u006eode\""][self.rng.usize(..4)];
        lines.push(format!("command={program}"));
        if self.rng.u8(..4) > 0 {
            let args = ["[]", "[ ]", "[\n  # none\n]", "[\"-y\", 'x',]", "[\n  \"-y\", # yes\n  \"ü\"\n]"]
                [self.rng.usize(..5)];
            lines.push(format!("args = {args}"));
        }
        self.maybe_env(name, lines, tables);
    }

    fn maybe_env(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        match self.rng.u8(..6) {
            0 => lines.push("env = { \"A\" = \"b\", C = 'd' }".to_owned()),
            1 => lines.push("env = {}".to_owned()),
            2 => lines.push("env.A = \"b\"".to_owned()),
            3 => *tables += &format!("[mcp_servers.{name}.env]\nA = \"b\" # c\n\nC = 'd'\n"),
            4 => *tables += &format!("[mcp_servers.{name}.env]\n"),
            _ => {}
        }
    }

    fn url(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        let urls = ["\"https://mcp.example.com/mcp\"", "'http://localhost/mcp'", "\"http://localhost/?key=s3cret\""];
        lines.push(format!("url = {}", urls[self.rng.usize(..3)]));
        if self.rng.bool() {
            lines.push(
                ["bearer_token_env_var = \"TOKEN\"", "bearer_token_env_var='TOKEN'"][self.rng.usize(..2)].to_owned(),
            );
        }
        match self.rng.u8(..5) {
            0 => lines.push("http_headers = { \"X-Key\" = \"s3cret\", 'X_Key' = 'b', Region = \"c\" }".to_owned()),
            1 => lines.push("http_headers = {}".to_owned()),
            2 => {
                *tables +=
                    &format!("[mcp_servers.{name}.http_headers]\n\"Authorization\" = \"Bearer x\"\nRegion = 'eu'\n");
            }
            3 => lines.push("http_headers.Region = 'eu'".to_owned()),
            _ => {}
        }
    }

    fn mcp_remote(&mut self, name: &str, lines: &mut Vec<String>, tables: &mut String) {
        lines.push("command = \"npx\"".to_owned());
        lines.push(
            "args = [\"mcp-remote\", \"https://mcp.example.com/sse\", '--header', 'Authorization: Bearer s3cret']"
                .to_owned(),
        );
        self.maybe_env(name, lines, tables);
    }

    fn inline(&mut self) -> String {
        [
            "{ command = \"npx\", args = [\"-y\"] }",
            "{command=\"npx\"}",
            "{ url = \"http://localhost/x\", http_headers = { A = \"b\" } }",
            "{ args = [], command = 'x', env = { A = \"b\" } }",
        ][self.rng.usize(..4)]
        .to_owned()
    }
}
