//! What a trace predicts, so that it only has to store what it did not.
//!
//! Writer and reader run the same model in step. All state starts afresh in every chunk.

use halfwink_units::{Asid, PhysAddr, VirtAddr, PAGE_SHIFT};

use super::header::DirectMap;
use crate::program::{Site, GROUPS};

/// Guesses the next template from the last two.
#[derive(Debug)]
pub(crate) struct Sequence {
    /// Successor of each pair of templates plus one, by the hash of the pair.
    by_pair: Vec<u32>,
    /// Successor of each template plus one.
    by_last: Vec<u32>,
    last: u32,
    slot: usize,
}

/// Without tags: two pairs in one place spoil each other's guess and nothing else, since a wrong
/// guess is only a longer column. A quarter of a megabyte, cleared for each chunk.
const PAIR_SLOTS: usize = 1 << 16;

impl Sequence {
    pub(crate) fn new() -> Sequence {
        Sequence { by_pair: vec![0; PAIR_SLOTS], by_last: Vec::new(), last: 0, slot: 0 }
    }

    pub(crate) fn reset(&mut self, templates: usize) {
        self.by_pair.fill(0);
        self.by_last.clear();
        self.by_last.resize(templates, 0);
        self.last = 0;
        self.slot = 0;
    }

    /// Returns the best guess of the next template.
    #[inline]
    pub(crate) fn guess(&self) -> u32 {
        match self.by_pair[self.slot] {
            0 => self.second_guess(),
            n => n - 1,
        }
    }

    /// Returns the second guess, for use when [`Sequence::guess`] was wrong. Dictionaries list
    /// templates in the order of their first execution, so the next number is a fair start.
    #[inline]
    pub(crate) fn second_guess(&self) -> u32 {
        match self.by_last.get(self.last as usize) {
            Some(&n) if n != 0 => n - 1,
            _ => self.last + 1,
        }
    }

    /// The template that came.
    #[inline]
    pub(crate) fn update(&mut self, template: u32) {
        // Last one wins, without counting: what followed last time is what a loop does again.
        self.by_pair[self.slot] = template + 1;
        let last = self.last as usize;
        // A writer's program grows within the chunk, a reader has all of it: both must treat a
        // template that is new alike, so an absent entry means what a zero means.
        if last >= self.by_last.len() {
            self.by_last.resize(last + 1, 0);
        }
        self.by_last[last] = template + 1;
        let pair = (u64::from(self.last) << 32 | u64::from(template)).wrapping_mul(HASH);
        self.slot = (pair >> (64 - PAIR_SLOTS.trailing_zeros())) as usize;
        self.last = template;
    }

    /// The last template seen, from which a wrong guess is counted.
    pub(crate) fn base(&self) -> u32 {
        self.last
    }
}

/// 2^64 / golden ratio, odd. Part of the format: another factor guesses other templates and pages.
const HASH: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Clone, Copy, Debug, Default)]
struct SiteState {
    /// Address at the last execution.
    last: u64,
    /// Difference of its last two addresses.
    stride: u64,
    /// Difference from the previous access of the group.
    offset: u64,
}

/// Guesses addresses from the same site's past and from the last access of the same group.
///
/// A group is a base register: fields of one object, and pushes to one stack, lie at fixed
/// distances from each other wherever the object is, which no site can tell from its own past.
#[derive(Debug)]
pub(crate) struct Addresses {
    sites: Vec<SiteState>,
    groups: [u64; GROUPS],
}

/// Number of guesses for each address.
pub(crate) const GUESSES: usize = 3;

impl Addresses {
    pub(crate) fn new() -> Addresses {
        Addresses { sites: Vec::new(), groups: [0; GROUPS] }
    }

    pub(crate) fn reset(&mut self, sites: usize) {
        self.sites.clear();
        self.sites.resize(sites, SiteState::default());
        self.groups = [0; GROUPS];
    }

    /// Makes room for sites that the dictionary gained during the chunk.
    pub(crate) fn grow(&mut self, sites: usize) {
        if sites > self.sites.len() {
            self.sites.resize(sites, SiteState::default());
        }
    }

    /// All guesses, likeliest first: the group's last address plus the usual distance, the site's
    /// last address plus its stride, the site's last address.
    #[inline]
    pub(crate) fn guesses(&self, index: usize, site: Site) -> [u64; GUESSES] {
        let state = &self.sites[index];
        [
            self.groups[usize::from(site.group) % GROUPS].wrapping_add(state.offset),
            state.last.wrapping_add(state.stride),
            state.last,
        ]
    }

    #[inline]
    pub(crate) fn guess(&self, index: usize, site: Site, which: usize) -> u64 {
        let state = &self.sites[index];
        match which {
            0 => self.groups[usize::from(site.group) % GROUPS].wrapping_add(state.offset),
            1 => state.last.wrapping_add(state.stride),
            _ => state.last,
        }
    }

    /// The address that came.
    #[inline]
    pub(crate) fn update(&mut self, index: usize, site: Site, address: u64) {
        // Wrapping throughout: a foreign trace may hold any address, and its differences too.
        let state = &mut self.sites[index];
        let group = &mut self.groups[usize::from(site.group) % GROUPS];
        state.stride = address.wrapping_sub(state.last);
        state.offset = address.wrapping_sub(*group);
        state.last = address;
        *group = address;
    }
}

/// Guesses physical pages: where the page was last seen, else through the direct map.
#[derive(Debug)]
pub(crate) struct Pages {
    slots: Vec<(u64, u64)>,
    asid: u64,
    direct: Option<DirectMap>,
    /// Physical page of the last correction.
    pub(crate) last_correction: u64,
}

const PAGE_SLOTS: usize = 8192;
const NO_PAGE: u64 = u64::MAX;

impl Pages {
    pub(crate) fn new(direct: Option<DirectMap>) -> Pages {
        Pages { slots: vec![(NO_PAGE, 0); PAGE_SLOTS], asid: 0, direct, last_correction: 0 }
    }

    pub(crate) fn reset(&mut self, asid: Asid) {
        self.slots.fill((NO_PAGE, 0));
        self.asid = asid.0;
        self.last_correction = 0;
    }

    pub(crate) fn switch(&mut self, asid: Asid) {
        self.asid = asid.0;
    }

    /// User pages are apart in each address space, kernel pages are shared.
    #[inline]
    fn key(&self, virt: VirtAddr) -> u64 {
        let page = virt.0 >> PAGE_SHIFT;
        // A user's page has 35 bits: the address space lies above them. Where two spaces still
        // share a key, a guess is wrong and corrected.
        if virt.is_kernel_half() {
            page
        } else {
            page | self.asid << 36
        }
    }

    #[inline]
    fn slot(key: u64) -> usize {
        (key.wrapping_mul(HASH) >> (64 - PAGE_SLOTS.trailing_zeros())) as usize
    }

    /// The expected physical page number.
    #[inline]
    pub(crate) fn guess(&self, virt: VirtAddr) -> u64 {
        // With tags, unlike templates: without one, another page's correction would hide the direct
        // map.
        let key = self.key(virt);
        let (known, page) = self.slots[Pages::slot(key)];
        if known == key {
            return page;
        }
        self.direct_page(virt)
    }

    #[inline]
    fn direct_page(&self, virt: VirtAddr) -> u64 {
        match self.direct {
            Some(map) if virt.0.wrapping_sub(map.virt_base) < map.bytes => {
                (virt.0 - map.virt_base) >> PAGE_SHIFT
            }
            _ => virt.0 >> PAGE_SHIFT,
        }
    }

    /// The guess was wrong: the page is this one.
    pub(crate) fn correct(&mut self, virt: VirtAddr, page: u64) {
        let key = self.key(virt);
        self.slots[Pages::slot(key)] = (key, page);
        self.last_correction = page;
    }
}

/// The physical address of `virt` in physical page `page`.
#[inline]
pub(crate) fn in_page(page: u64, virt: VirtAddr) -> PhysAddr {
    const MASK: u64 = (1 << PAGE_SHIFT) - 1;
    PhysAddr(page << PAGE_SHIFT | virt.0 & MASK)
}
