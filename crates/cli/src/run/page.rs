//! The page of a language model's runs: of its prompt, and of the last token.

use std::path::Path;

use tilewright_graph::Graph;
use tilewright_runtime::generate::{Generation, RecordedRun, recorded_runs};
use tilewright_runtime::model::{ModelDevice, ModelError};
use tilewright_view::{PageRuns, RunView, page};
use tilewright_workbench::model_run::{ModelTexts, title};

use super::device::{ModelJob, failed, wide};
use crate::host::Host;
use crate::outcome::Outcome;

/// Where the page of a model's runs goes, and the graph that it shows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ModelPage<'j> {
    pub(super) path: &'j str,
    pub(super) graph: &'j Graph,
}

impl ModelPage<'_> {
    /// What the page shows of a model whose programs templates wrote.
    pub(super) fn runs(
        &self,
        job: &ModelJob<'_>,
        device: &mut ModelDevice,
        texts: &ModelTexts,
        generation: &Generation,
    ) -> Result<Vec<RunView>, ModelError> {
        let runs = recorded_runs(device, &wide(&job.prompt), generation)?;
        let compiled = device.compiled();
        let view = |run: RecordedRun| {
            let title = title(&compiled.kernels.name, run.before, run.tokens);
            let run = texts.run(job.machine, compiled, title, (run.phase, run.reading));
            texts.view(self.graph, compiled, &run)
        };
        Ok(runs.into_iter().map(view).collect())
    }
}

impl ModelJob<'_> {
    /// Writes the page of some runs, and says so behind the rest unless that is data.
    pub(super) fn with_page(
        &self,
        said: Outcome,
        runs: Vec<RunView>,
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        let Some(ModelPage { path, .. }) = self.page else { return Ok(said) };
        let text = page(&PageRuns { runs, ..PageRuns::default() });
        host.write(Path::new(path), text.as_bytes()).map_err(|error| Outcome::unwritten(path, &error))?;
        let words = format!("{:<12}{path} (opens without a network)\n", "page");
        let stdout = if self.prompting.json { said.stdout } else { said.stdout + &words };
        Ok(Outcome { stdout, ..said })
    }

    /// The same for a model whose programs templates wrote.
    pub(super) fn with_model_page(
        &self,
        said: Outcome,
        (device, texts): (&mut ModelDevice, Option<&ModelTexts>),
        generation: &Generation,
        host: &mut dyn Host,
    ) -> Result<Outcome, Outcome> {
        let (Some(page), Some(texts)) = (&self.page, texts) else { return Ok(said) };
        let runs = page.runs(self, device, texts, generation).map_err(|error| failed(&error))?;
        self.with_page(said, runs, host)
    }
}
