//! Work off the threads that answer, in turns: each caller gets its share of the places.

use std::sync::Arc;

use credence_ledger::View;
use credence_protocol::EntityId;

use super::App;
use crate::{
    namespace::Namespace,
    problem::Problem,
    turns::{self, Turns},
};

impl App {
    /// Work that waits for the disk, off the threads that answer.
    pub(crate) async fn work<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.within(&self.works, work).await
    }

    /// Judging that takes long: it needs a processor all the time.
    pub(crate) async fn judging<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.within(&self.judgings, work).await
    }

    /// Opens a namespace of the engine. Those who wait for theirs do not hold up other work.
    pub(crate) async fn opening(self: &Arc<Self>, name: EntityId) -> Result<Arc<Namespace>, Problem> {
        let _turn = self.openings.wait(turns::payer()).await;
        self.work(move |app| app.engines.open(name.as_str())).await
    }

    /// The place is held until the work is over, also where nobody waits for it any more: what was given up must not pile up.
    async fn within<T: Send + 'static>(
        self: &Arc<Self>,
        places: &Turns,
        work: impl FnOnce(&App) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let place = places.wait(turns::payer()).await;
        let app = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let done = work(&app);
            drop(place);
            done
        });
        done.await.unwrap_or_else(|e| Err(Problem::internal(&e)))
    }

    /// A consistent read.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&App, &dyn View) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        self.within(&self.reads, move |app| read(app, &*app.authority.ledger().view()?)).await
    }
}
