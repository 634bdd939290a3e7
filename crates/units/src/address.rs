use core::fmt;

/// log2 of the cache line size. All five works and all machines here use 64-byte lines.
pub const LINE_SHIFT: u32 = 6;
/// Bytes in a cache line.
pub const LINE_BYTES: u64 = 1 << LINE_SHIFT;
/// log2 of the smallest page size.
pub const PAGE_SHIFT: u32 = 12;

/// A virtual byte address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VirtAddr(pub u64);

/// A physical byte address.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysAddr(pub u64);

/// A physical address in units of cache lines.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct LineAddr(pub u64);

/// An address space: the physical page number of its top page table (x86 CR3 >> 12).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(pub u64);

impl VirtAddr {
    /// x86-64 kernels live in the upper half.
    #[must_use]
    pub const fn is_kernel_half(self) -> bool {
        self.0 >> 63 == 1
    }
}

impl PhysAddr {
    /// The line that holds this byte.
    #[must_use]
    pub const fn line(self) -> LineAddr {
        LineAddr(self.0 >> LINE_SHIFT)
    }
}

impl LineAddr {
    /// The first byte of the line.
    #[must_use]
    pub const fn first_byte(self) -> PhysAddr {
        PhysAddr(self.0 << LINE_SHIFT)
    }
}

macro_rules! hex_debug {
    ($($name:ident),*) => {$(
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x})"), self.0)
            }
        }
    )*};
}

hex_debug!(VirtAddr, PhysAddr, LineAddr, Asid);
