//! One self-contained file: the page, its style, its script, and runs as data that is never run.

use serde::Serialize;

use crate::run_view::RunView;

/// What Vite made of `web/`.
const SCRIPT: &str = include_str!("../../../web/dist/page.js");
const STYLE: &str = include_str!("../../../web/dist/page.css");
/// The content policy that allows these two and nothing else, by their hashes.
const POLICY: &str = include_str!("../../../web/dist/policy.txt");

/// The runs that a page shows; two of them are compared.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PageRuns {
    /// In the order in which they were named.
    pub runs: Vec<RunView>,
    /// Searches, with what they found.
    pub explorations: Vec<ExplorationView>,
}

/// What a search found, with the keys of `explore --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ExplorationView {
    /// What it is called.
    pub name: String,
    /// All of it.
    pub found: serde_json::Value,
}

impl ExplorationView {
    /// A search from what `explore --json` printed; none if that is something else.
    pub fn read(name: &str, text: &str) -> Option<ExplorationView> {
        let found: serde_json::Value = serde_json::from_str(text).ok()?;
        let lists = ["candidates", "pareto"].iter().all(|key| found[*key].is_array());
        let whole =
            lists && found["best"].is_object() && found["dims"].is_object() && found["einsum"].is_string();
        whole.then(|| ExplorationView { name: name.to_string(), found })
    }
}

/// The page as one file.
pub fn page(runs: &PageRuns) -> String {
    let searches = runs.explorations.iter().map(|found| found.name.as_str());
    let names: Vec<&str> = runs.runs.iter().map(|run| run.name.as_str()).chain(searches).collect();
    let title = if names.is_empty() { "tilewright".to_string() } else { names.join(", ") };
    let data = serde_json::to_string(runs).unwrap_or_else(|error| format!("{{\"error\": \"{error}\"}}"));
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<div id=\"app\"></div>\n<script type=\"application/json\" id=\"runs\">{}</script>\n\
         <script>{SCRIPT}</script>\n</body>\n</html>\n",
        POLICY.trim(),
        escaped(&title),
        inert(&data),
    )
}

/// Text inside an element or an attribute.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// JSON that ends no element and opens no comment: `<` only occurs in its strings, where it can be spelled
/// by number.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_text() {
        let name = "</script><script>alert(1)</script><!-- \"'&";
        let run = RunView { name: name.into(), names: vec![name.into()], ..RunView::default() };
        let page = page(&PageRuns { runs: vec![run], ..PageRuns::default() });
        assert_eq!(page.matches("<script").count() - SCRIPT.matches("<script").count(), 2);
        assert_eq!(page.matches("<!--").count(), SCRIPT.matches("<!--").count());
        assert!(page.contains("<title>&lt;/script&gt;&lt;script&gt;alert(1)"));
    }

    #[test]
    fn the_policy_allows_no_network_and_no_script_but_ours() {
        assert!(POLICY.starts_with("default-src 'none'; "), "{POLICY}");
        assert!(!POLICY.contains("unsafe") && !POLICY.contains("http"), "{POLICY}");
        assert!(!SCRIPT.contains("</script") && !STYLE.contains("</style"));
    }
}
