# SPDX-License-Identifier: GPL-2.0-or-later
# An invented catalogue.
use strict;
use warnings;

my @words = qw(amber basin cedar delta ember flint grove heath inlet jetty knoll ledge marsh north oasis);
my $state = 7;
sub pick { $state = ($state * 1103515245 + 12345) & 0x7fffffff; return ($state >> 8) % $_[0]; }
sub phrase { return join ' ', map { $words[pick(scalar @words)] } 1 .. $_[0]; }

print qq(<?xml version="1.0"?>\n<catalogue>\n);
for my $i (1 .. 40000) {
    printf qq(<item id="i%d" group="g%d"><name>%s</name><price>%d.%02d</price><stock>%d</stock>),
        $i, pick(200), phrase(3), pick(900), pick(100), pick(50);
    printf qq(<note lang="%s">%s</note>), (qw(en de fr))[pick(3)], phrase(8) for 0 .. pick(3);
    print "</item>\n";
}
print "</catalogue>\n";
