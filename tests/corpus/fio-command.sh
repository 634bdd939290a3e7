#!/bin/sh
set -e
sudo fio --name=randread --ioengine=libaio --direct=1 --rw=randread --bs=4k --iodepth=32 --size=1G --name=second --rw=randread --bs=4k --iodepth=8 --ioengine=libaio --direct=1 --size=1G
