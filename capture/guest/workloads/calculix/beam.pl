# SPDX-License-Identifier: GPL-2.0-or-later
# A beam of bricks, held at one end and pulled down at the other, for CalculiX.
use strict;
use warnings;

my ($nx, $ny, $nz) = @ARGV;
sub node { my ($x, $y, $z) = @_; return 1 + $x + ($nx + 1) * ($y + ($ny + 1) * $z); }

print "*NODE, NSET=ALL\n";
for my $z (0 .. $nz) { for my $y (0 .. $ny) { for my $x (0 .. $nx) {
    printf "%d, %g, %g, %g\n", node($x, $y, $z), $x, $y, $z;
} } }
print "*ELEMENT, TYPE=C3D8, ELSET=BEAM\n";
my $id = 0;
for my $z (0 .. $nz - 1) { for my $y (0 .. $ny - 1) { for my $x (0 .. $nx - 1) {
    my @corners = map { my $dz = $_; map { node($x + $_->[0], $y + $_->[1], $z + $dz) } [0, 0], [1, 0], [1, 1], [0, 1] } 0, 1;
    print join(', ', ++$id, @corners), "\n";
} } }
print "*MATERIAL, NAME=STEEL\n*ELASTIC\n210000, 0.3\n*SOLID SECTION, ELSET=BEAM, MATERIAL=STEEL\n*BOUNDARY\n";
for my $z (0 .. $nz) { printf "%d, 1, 3\n", node(0, $_, $z) for 0 .. $ny; }
print "*STEP\n*STATIC, SOLVER=SPOOLES\n*CLOAD\n";
for my $z (0 .. $nz) { printf "%d, 2, -10\n", node($nx, $_, $z) for 0 .. $ny; }
print "*NODE PRINT, NSET=ALL\nU\n*END STEP\n";
