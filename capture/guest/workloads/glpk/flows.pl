# SPDX-License-Identifier: GPL-2.0-or-later
# A linear program: several goods that share the capacities of one network.
use strict;
use warnings;

my ($goods, $nodes, $arcs) = (12, 150, 900);
my $state = 31;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }

my @arcs = map { my $from = pick($nodes); [$from, ($from + 1 + pick($nodes - 1)) % $nodes, 1 + pick(99)] } 1 .. $arcs;
push @arcs, map { [$_, ($_ + 1) % $nodes, 400] } 0 .. $nodes - 1;
my @cost;
my %balance;
for my $g (1 .. $goods) {
    for my $a (0 .. $#arcs) {
        my ($from, $to, $price) = @{$arcs[$a]};
        push @cost, ($price + pick(20)) . " f${g}_$a";
        push @{$balance{"b${g}_$from"}}, "+ f${g}_$a";
        push @{$balance{"b${g}_$to"}}, "- f${g}_$a";
    }
}
print "Minimize\n cost: ", join("\n + ", @cost), "\nSubject To\n";
for my $g (1 .. $goods) {
    for my $n (0 .. $nodes - 1) {
        my $amount = $n % 2 ? -3 - ($n * $g) % 5 : 3 + (($n + 1) * $g) % 5;
        my $terms = join "\n ", @{$balance{"b${g}_$n"}};
        print " b${g}_$n: $terms >= $amount\n";
    }
}
for my $a (0 .. $#arcs) {
    print " c$a: ", join(' + ', map { "f${_}_$a" } 1 .. $goods), " <= ", $a < $arcs ? 15 + pick(40) : 10000, "\n";
}
print "End\n";
