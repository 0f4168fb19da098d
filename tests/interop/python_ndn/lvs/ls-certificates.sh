pyndnsec --path . --tpm tpm-file --tpm-path privKeys ls -vvv
