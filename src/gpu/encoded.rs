//! [`Encoded`]: a chunk to decode on a device, with the fields by which its calls are filtered. The [`queue`](super::queue) reserves
//! staging memory for it; this reads and plans it there.

use std::ops::Range;
use std::sync::Arc;

use super::batch::{ChunkJob, FieldPiece, GUARD, Reply, Ticket, align_up};
use super::call_filter::MaskedChunk;
use super::plan::{ChunkPlan, ChunkPlanner};
use super::queue_state::Need;
use super::work::Work;
use crate::gpu::error::GpuError;
use crate::store::OpenChunk;

/// An encoded chunk to decode on a device.
#[derive(Debug, Clone, Copy)]
pub struct Encoded<'a> {
    /// What to do with it.
    pub work: &'a Arc<Work>,
    /// Which chunk along the sample axis it is.
    pub sample_chunk: usize,
    /// Rows that exist.
    pub rows: usize,
    /// Its encoded bytes, read when they are staged; `None` for an absent chunk.
    pub chunk: Option<&'a OpenChunk>,
    /// The same of each field of the work's filter.
    pub fields: &'a [Option<OpenChunk>],
}

impl Encoded<'_> {
    /// The chunk, then the fields, as far as they are not absent.
    fn pieces(&self) -> impl Iterator<Item = Option<&OpenChunk>> {
        std::iter::once(self.chunk).chain(self.fields.iter().map(Option::as_ref))
    }

    /// The place of each piece in the staging memory of all.
    fn places(&self) -> Result<Vec<Range<usize>>, GpuError> {
        let mut start = 0;
        let mut places = Vec::with_capacity(1 + self.fields.len());
        for piece in self.pieces() {
            let len = piece.map_or(0, OpenChunk::len);
            let end = usize::checked_add(start, len).filter(|end| *end <= usize::MAX / 2);
            let end = end.ok_or("the encoded chunks do not fit in memory")?;
            places.push(start..end);
            start = align_up(end + GUARD);
        }
        Ok(places)
    }

    /// Expected decoded bytes: the mean of earlier chunks and a margin, so that few batches exceed their limit.
    fn expected(&self, most: usize, large_frames: bool) -> usize {
        if large_frames {
            // Large frames are not cut.
            return most;
        }
        let mean = self.work.sizes.decoded(most);
        // With the guard bytes between chunks.
        align_up(
            mean.saturating_add(mean / 16)
                .min(most)
                .saturating_add(GUARD),
        )
    }

    /// The room that it needs in a batch.
    ///
    /// # Errors
    /// The reason why the host decodes it.
    pub fn need(&self) -> Result<Need, GpuError> {
        let decoded = self.work.decoded_bytes();
        let large_frames = self.work.max_wait();
        Ok(Need {
            len: self.places()?.last().map_or(0, |last| last.end),
            decoded,
            expected: self.expected(decoded, large_frames.is_some()),
            output: self.work.output_bytes(self.sample_chunk, self.rows)?,
            large_frames,
        })
    }

    /// Reads and plans it in `bytes`, the staging memory of the batch from `start` on. Returns its job and its ticket. `plan` is reused.
    ///
    /// # Errors
    /// The reason why the host decodes it.
    pub fn job(
        &self,
        start: usize,
        bytes: &mut [u8],
        mut plan: ChunkPlan,
    ) -> Result<(ChunkJob, Ticket), GpuError> {
        let work = self.work;
        if work.fields().len() != self.fields.len() {
            let (found, expected) = (self.fields.len(), work.fields().len());
            return Err(format!("{found} fields to filter by, expected {expected}").into());
        }
        let mut places = self.places()?.into_iter();
        let mut stage = |planner: &ChunkPlanner,
                         piece: Option<&OpenChunk>,
                         plan: &mut ChunkPlan|
         -> Result<Range<usize>, GpuError> {
            let place = places.next().unwrap_or_default();
            let src = start + place.start..start + place.end;
            let Some(chunk) = piece else {
                planner.plan_absent(plan)?;
                return Ok(src);
            };
            let bytes = bytes.get_mut(place).ok_or("no staging memory")?;
            chunk.read(bytes).map_err(|error| error.to_string())?;
            planner.plan(bytes, plan)?;
            Ok(src)
        };
        let src = stage(&work.planner, self.chunk, &mut plan)?;
        let mut end = plan.decoded_len;
        let mut fields = Vec::with_capacity(self.fields.len());
        for (planner, chunk) in work.fields().iter().zip(self.fields) {
            let mut plan = ChunkPlan::default();
            let src = stage(planner, chunk.as_ref(), &mut plan)?;
            let dst = end;
            // Each at most the decoded bytes of a chunk, which fit in 32 bits.
            end = dst.saturating_add(plan.decoded_len);
            fields.push(FieldPiece { src, plan, dst });
        }
        let masked = match &work.filter {
            None => None,
            Some(_) => Some(MaskedChunk::try_new(&plan, work.planner.width(), end)?),
        };
        let (reply, ticket) = Reply::new();
        let job = ChunkJob {
            work: Arc::clone(work),
            sample_chunk: self.sample_chunk,
            rows: self.rows,
            src,
            file: None,
            plan,
            fields,
            masked,
            dst: 0,
            out: 0..0,
            resident: None,
            reply,
        };
        let encoded = self.pieces().flatten().map(OpenChunk::len).sum();
        work.sizes.add(encoded, job.decoded_len());
        Ok((job, ticket))
    }
}
